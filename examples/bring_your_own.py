"""Bring your own network: any module that maps (z, t) to logits is trained and sampled like the library's own.

Run it with `python examples/bring_your_own.py`; it takes a few seconds.
"""

from __future__ import annotations

import tempfile

import torch
from torch import Tensor, nn

import simplax
from simplax.data.markov import MarkovChain, MarkovSource
from simplax.train import Optimizer, Run, train

CHAIN = MarkovChain(categories=4, sharpness=3.0)
LENGTH = 6


class Network(nn.Module):
    """Two layers on one-hot tokens and the time: no transformer, no special base class."""

    vocab_size = CHAIN.categories  # methods ask how many categories there are

    def __init__(self) -> None:
        super().__init__()
        size = LENGTH * self.vocab_size
        self.layers = nn.Sequential(nn.Linear(size + 1, 256), nn.SiLU(), nn.Linear(256, size))

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        one_hot = nn.functional.one_hot(z, self.vocab_size).float()
        logits = self.layers(torch.cat([one_hot.flatten(1), t[:, None]], dim=1))
        return logits.unflatten(1, (LENGTH, self.vocab_size))


def main(steps: int = 400) -> tuple[float, float]:
    """Train and sample; nats per token that the chain gives to the samples, and to its own sequences."""
    torch.manual_seed(0)
    method, network = simplax.methods.UDLM(), Network()
    run = Run(steps=steps, batch_size=128, optimizer=Optimizer(learning_rate=1e-2, warmup=10), ema=0.9)
    with tempfile.TemporaryDirectory() as directory:
        train(method, network, MarkovSource(CHAIN, LENGTH), run, directory, quiet=True)
    drawn = simplax.sample(
        network,
        (512, LENGTH),
        sampler=method.sampler(),
        schedule=method.schedule,
        num_steps=32,
        vocab_size=CHAIN.categories,
        seeds=range(512),
    )
    return -float(CHAIN.log_prob(drawn.tokens).mean()) / LENGTH, CHAIN.entropy(LENGTH) / LENGTH


if __name__ == "__main__":
    print("{:.3f} nats per token for samples, {:.3f} for the data".format(*main()))
