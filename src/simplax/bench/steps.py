"""The contestants: one training step and one sampling step, ours, the floor's and the literal ones, on one network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from simplax.bench.measure import Contestant
from simplax.methods import UDLM, Simplax
from simplax.methods.base import Method
from simplax.nn import Architecture, Denoiser
from simplax.objectives.fused import rate_density
from simplax.processes.prediction import Prediction, Projection
from simplax.processes.prior import Prior
from simplax.processes.simplex import Dense, form
from simplax.random import Keys
from simplax.samplers import Ancestral
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.loop import sample
from simplax.times import Grid
from simplax.train.precision import apply, choose
from simplax.typing import Batch, StepContext

ETA = 0.01
CHAIN = 128  # the sampling steps that are timed are two in the middle of a chain of this many
SOFT_CAP = 30.0


@dataclass(frozen=True)
class Size:
    """A network, a vocabulary and a batch."""

    name: str
    width: int
    depth: int
    heads: int
    vocabulary: int
    length: int
    batch: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.depth} x {self.width}, K = {self.vocabulary:,}, "
            f"L = {self.length:,}, batch {self.batch}"
        )


SIZES = {
    "small": Size("small", 768, 12, 12, 50_258, 1024, 1),
    "mini": Size("mini", 256, 6, 4, 8192, 128, 8),
    "quick": Size("quick", 64, 2, 2, 2048, 64, 2),
}


class Bench:
    """A network of one size, with random weights everywhere, and a batch to train it on."""

    def __init__(self, size: Size, precision: str = "auto", seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.size, self.prior = size, Prior(size.vocabulary)
        architecture = Architecture(size.width, size.depth, size.heads, soft_cap=SOFT_CAP)
        self.simplax, self.udlm = Simplax(concentration=ETA), UDLM()
        denoiser = self.simplax.build(size.vocabulary, size.length, architecture)
        assert isinstance(denoiser, Denoiser)
        self.denoiser = denoiser
        torch.nn.init.normal_(denoiser.head.weight, std=1 / math.sqrt(size.width))
        self.precision = choose(precision, denoiser, torch.device("cpu"))
        apply(self.precision, denoiser)
        self.tokens = torch.randint(size.vocabulary, (size.batch, size.length))
        self.batch = Batch.of(self.tokens)
        u = (torch.arange(size.batch, dtype=torch.float64) + 0.5) / size.batch
        self.context = StepContext(Keys.from_seeds(range(size.batch)), u)

    # training

    def train_floor(self) -> None:
        """Trunk, projection, plain cross-entropy; nothing is drawn."""
        self._step(self._plain_cross_entropy(self.denoiser(self.tokens, self.context.u.float())))

    def train(self, method: Method) -> None:
        self._step(method.loss(self.denoiser, self.batch, self.context).mean())

    def train_literal(self) -> None:
        """The paper's text: w a Dirichlet K-vector per position, drawn in float64; eq. 17 on K-vectors in float32."""
        t = self.simplax.times(self.context.u)
        alpha, rate = (f(t).unsqueeze(-1) for f in (self.simplax.schedule.alpha, self.simplax.schedule.rate))
        eta = torch.full_like(alpha, ETA)
        state, z = form("dense").draw(self.tokens, alpha, eta, ETA, self.prior, self.context.keys)
        assert isinstance(state, Dense)
        w, a, pi = state.w.float(), alpha.float().unsqueeze(-1), 1 / self.size.vocabulary
        p = a * F.one_hot(self.tokens, self.size.vocabulary) + (1 - a) * pi
        p_hat = a * torch.softmax(self.denoiser(z, t.float()), dim=-1) + (1 - a) * pi
        log_p_hat, leave = p_hat.log(), w * pi / p
        flow = (leave * log_p_hat).sum(-1) - leave.sum(-1) * (p * log_p_hat).sum(-1)
        self._step((rate.float() * ((w * pi / p_hat).sum(-1) + flow)).mean())

    def trainers(self) -> dict[str, Contestant]:
        return {
            "floor": self.train_floor,
            "UDLM": lambda: self.train(self.udlm),
            "Simplax": lambda: self.train(self.simplax),
        }

    def other_trainers(self) -> dict[str, Contestant]:
        return {
            "Simplax, atoms": lambda: self.train(replace(self.simplax, form="atoms")),
            "dense": self.train_literal,
        }

    def _plain_cross_entropy(self, logits: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), self.tokens.flatten())

    def _step(self, loss: Tensor) -> None:
        """Gradients only: an optimizer would cost all contestants the same."""
        self.denoiser.zero_grad(set_to_none=True)
        loss.backward()

    # projection and loss alone, for memory

    @cached_property
    def features(self) -> Tensor:
        with torch.no_grad():
            features = self.denoiser.features(self.tokens, self.context.u.float())
        return features.requires_grad_()

    def heads(self) -> Mapping[str, Contestant]:
        def projected() -> Prediction:
            head, autocast = self.denoiser.head, self.denoiser.autocast
            return Prediction(
                projection=Projection(self.features, head.weight, head.bias, SOFT_CAP, autocast)
            )

        return {
            "plain cross-entropy": lambda: self._head_step(
                self._plain_cross_entropy(self.denoiser.logits(self.features))
            ),
            "Simplax": lambda: self._head_step(self._density(projected())),
        }

    def _head_step(self, loss: Tensor) -> None:
        self.features.grad = None
        self._step(loss)

    def _density(self, prediction: Prediction) -> Tensor:
        t = self.simplax.times(self.context.u)
        alpha = self.simplax.schedule.alpha(t).unsqueeze(-1)
        rate = self.simplax.schedule.rate(t).unsqueeze(-1)
        eta = torch.full_like(alpha, ETA)
        state, _ = form("marginal").draw(self.tokens, alpha, eta, ETA, self.prior, self.context.keys)
        return rate_density(prediction, self.tokens, state, alpha, rate, self.prior, self.batch.scored).mean()

    # sampling

    def samplers(self) -> dict[str, Contestant]:
        """Two network calls each."""
        times = Grid(0.5 + 1 / CHAIN, 0.5 - 1 / CHAIN)
        return {
            "floor": lambda: [self._forward() for _ in range(2)],
            "UDLM": lambda: self._sample(Ancestral(times=times)),
            "Simplax": lambda: self._sample(SimplaxSampler(times=times, eta=ETA)),
        }

    def other_samplers(self) -> dict[str, Contestant]:
        times = Grid(0.5 + 1 / CHAIN, 0.5 - 1 / CHAIN)
        return {
            "Simplax, atoms": lambda: self._sample(SimplaxSampler(times=times, eta=ETA, form="atoms")),
            "dense": self.sample_literal,
        }

    def sample_literal(self) -> None:
        """As published code does: two posteriors over all categories in float64, an exponential race over each."""
        for _ in range(2):
            x_hat = torch.softmax(self._forward().double(), dim=-1)
            alpha_s, alpha_t, size = 0.5 + 1 / CHAIN, 0.5, self.size.vocabulary
            at_z = x_hat.gather(-1, self.tokens.unsqueeze(-1))
            stay = F.one_hot(self.tokens, size) * (alpha_t / alpha_s) + (1 - alpha_t / alpha_s) / size
            posterior = stay * (alpha_s * x_hat + (1 - alpha_s) / size)
            posterior = posterior / (alpha_t * at_z + (1 - alpha_t) / size)
            (posterior / -torch.rand_like(posterior).log()).argmax(-1)

    @torch.no_grad()
    def _forward(self) -> Tensor:
        return self.denoiser(self.tokens, self.context.u.float())

    def _sample(self, sampler: Ancestral | SimplaxSampler) -> None:
        sample(
            self.denoiser,
            (self.size.batch, self.size.length),
            sampler=sampler,
            schedule=self.simplax.schedule,
            num_steps=2,
            vocab_size=self.size.vocabulary,
            seeds=range(self.size.batch),
        )

    # drawing the state

    def draw(self, name: str, length: int) -> None:
        x = self.tokens.flatten()[torch.arange(length) % self.tokens.numel()].unsqueeze(0)
        alpha = torch.full((1, 1), 0.5, dtype=torch.float64)
        form(name).draw(
            x, alpha, torch.full_like(alpha, ETA), ETA, self.prior, Keys(self.context.keys.state[:1])
        )
