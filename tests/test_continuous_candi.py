"""CANDI against its definition, written out with one-hot vectors of a tiny vocabulary, position by position."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from simplax.methods import CANDI
from simplax.nn import Architecture, Denoiser
from simplax.nn.candi import HybridDenoiser
from simplax.nn.network import Chain
from simplax.random import Keys
from simplax.samplers.base import Setting
from simplax.samplers.candi import CachedHybrid, HybridState
from simplax.samplers.loop import sample
from simplax.typing import Batch, StepContext

SIZE, LENGTH, BATCH = 4, 6, 5
SMALL = Architecture(width=8, depth=1, heads=2, cond_dim=8)
METHOD = CANDI(mix=0.3)
TOKENS = Keys.from_seeds(range(BATCH)).randint(SIZE, LENGTH)
GIVEN = torch.arange(LENGTH).expand(BATCH, LENGTH) == 2


def alpha_at(t: float) -> float:
    """How many tokens are left: all at t = 0, one in a thousand at t = 1."""
    return 1e-3 + (1 - 1e-3) * (1 - t)


def sigma_at(t: float) -> float:
    """The noise at which so many wrong coordinates exceed the right one as the clock asks for, by bisection.

    A wrong coordinate exceeds the right one if sigma (xi - xi') > 1, which has chance Phi(-1 / (sigma sqrt 2)).
    """
    low, high = METHOD.ranks
    wanted = low + (high - low) * (1 - alpha_at(t))

    def share(sigma: float) -> float:
        return (SIZE - 1) / SIZE * 0.5 * math.erfc(1 / (2 * sigma))

    below, above = 0.05, 20.0
    for _ in range(80):
        middle = 0.5 * (below + above)
        below, above = (middle, above) if share(middle) < wanted else (below, middle)
    return 0.5 * (below + above)


@dataclass(frozen=True)
class Definition:
    """The same weights in a network that reads vectors of K + 1 numbers, the last of which stands for the mask."""

    network: Denoiser
    unit_rows: Tensor

    def logits(self, vectors: Tensor, hidden: Tensor, sigmas: list[float], times: list[float]) -> Tensor:
        """`vectors` (batch, length, K): one-hot where not `hidden`, noisy elsewhere."""
        read = torch.zeros(len(vectors), LENGTH, SIZE + 1, dtype=torch.float64)
        for b, i in itertools.product(range(len(vectors)), range(LENGTH)):
            if hidden[b, i]:
                read[b, i, :SIZE] = (1 - METHOD.mix) * vectors[b, i] / math.sqrt(1 + sigmas[b] ** 2)
                read[b, i, SIZE] = METHOD.mix
            else:
                read[b, i, :SIZE] = vectors[b, i]
        with torch.no_grad():
            return self.network(read.float(), torch.tensor(times)).double()


@pytest.fixture
def pair() -> tuple[HybridDenoiser, Definition]:
    torch.manual_seed(0)
    ours = METHOD.build(SIZE, LENGTH, SMALL)
    assert isinstance(ours, HybridDenoiser)
    for name, parameter in ours.named_parameters():  # opinions that depend on what is read
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.05 if "adaLN" in name else 0.7)
        elif "blocks" in name and "adaLN" in name:
            torch.nn.init.constant_(parameter, 0.3)
    theirs = Denoiser(
        SIZE + 1,
        LENGTH,
        SMALL,
        output_size=SIZE,
        time=lambda t: torch.tensor([-math.log(alpha_at(float(value))) for value in t]),
    )
    state = ours.trunk.state_dict()
    rows = state["vocab_embed.embedding"]
    state["vocab_embed.embedding"] = rows / rows.norm(dim=-1, keepdim=True)
    theirs.load_state_dict(state)
    return ours.eval(), Definition(theirs.eval(), state["vocab_embed.embedding"].double())


def one_hot(token: int) -> Tensor:
    vector = torch.zeros(SIZE, dtype=torch.float64)
    vector[token] = 1.0
    return vector


def test_the_noise_is_as_large_as_the_clock_asks_for(pair: tuple[HybridDenoiser, Definition]) -> None:
    times = [1e-3, 0.2, 0.5, 0.8, 0.999]
    found = pair[0].sigma(torch.tensor(times, dtype=torch.float64))
    expected = torch.tensor([sigma_at(t) for t in times], dtype=torch.float64)
    # the published table is interpolated linearly
    torch.testing.assert_close(found, expected, rtol=0, atol=3e-5)


def test_the_loss(pair: tuple[HybridDenoiser, Definition]) -> None:
    """Hidden tokens are noisy one-hot vectors mixed with the mask, and count -alpha' / (1 - alpha) = 1 / t each."""
    ours, definition = pair
    keys = Keys.from_seeds(range(BATCH)).stream("test")
    context = StepContext(keys, torch.linspace(0.05, 0.95, BATCH, dtype=torch.float64))
    found = METHOD.loss(ours, Batch.of(TOKENS, GIVEN), context)

    times = [1e-3 + (1 - 1e-3) * float(u) for u in context.u]
    sigmas = [sigma_at(t) for t in times]
    coins = keys.stream("reveal").uniform(LENGTH)
    noise = keys.stream("noise").normal(LENGTH, SIZE).double()
    vectors = torch.zeros(BATCH, LENGTH, SIZE, dtype=torch.float64)
    hidden = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    for b, i in itertools.product(range(BATCH), range(LENGTH)):
        alpha = alpha_at(times[b])
        # a token that is replaced by any of K + 1 others may be replaced by itself
        hidden[b, i] = bool(coins[b, i] >= alpha + (1 - alpha) / (SIZE + 1)) and not GIVEN[b, i]
        vectors[b, i] = one_hot(int(TOKENS[b, i]))
        if hidden[b, i]:
            vectors[b, i] += sigmas[b] * noise[b, i]
    log_x_hat = torch.log_softmax(definition.logits(vectors, hidden, sigmas, times), -1)
    expected = torch.zeros(BATCH, LENGTH, dtype=torch.float64)
    for b, i in itertools.product(range(BATCH), range(LENGTH)):
        if hidden[b, i]:
            expected[b, i] = -log_x_hat[b, i, TOKENS[b, i]] / times[b]
    assert 5 < int(hidden.sum()) < BATCH * LENGTH - 5
    torch.testing.assert_close(found.per_token.double(), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(found.scored, ~GIVEN)


def literal_step(
    definition: Definition,
    tokens: Tensor,
    shows: Tensor,
    vectors: Tensor,
    t: float,
    s: float,
    num_steps: int,
    keys: Keys,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw every hidden token, move all vectors towards the tokens, reveal each with chance dt / t."""
    batch, sigma_t, sigma_s = len(tokens), sigma_at(t), sigma_at(s)
    read = vectors.clone()
    for b, i in itertools.product(range(batch), range(LENGTH)):
        if shows[b, i]:
            read[b, i] = one_hot(int(tokens[b, i]))
    logits = definition.logits(read, ~shows, [sigma_s] * batch, [t] * batch) / temperature
    draws, coins = keys.stream("draw").uniform(LENGTH), keys.stream("reveal").uniform(LENGTH)
    tokens, shows, vectors = tokens.clone(), shows.clone(), vectors.clone()
    for b, i in itertools.product(range(batch), range(LENGTH)):
        if not shows[b, i]:
            cumulative = torch.softmax(logits[b, i], -1).cumsum(-1)
            tokens[b, i] = int((cumulative <= draws[b, i]).sum())
        step = vectors[b, i] - one_hot(int(tokens[b, i]))
        vectors[b, i] -= (sigma_t - sigma_s) * step / sigma_s**2
        shows[b, i] |= bool(coins[b, i] < (1 - 1e-5) / num_steps / t)
    return tokens, shows, vectors


def test_one_step_of_the_sampler(pair: tuple[HybridDenoiser, Definition]) -> None:
    ours, definition = pair
    keys = Keys.from_seeds(range(BATCH)).stream("test")
    vectors = keys.stream("state").normal(LENGTH, SIZE, dtype=torch.float64)
    shows = keys.stream("shows").uniform(LENGTH) < 0.4
    process = METHOD.process(ours)
    t, s, num_steps = 0.7, 0.5, 5
    with torch.no_grad():
        found = CachedHybrid().step(
            HybridState(TOKENS, shows, vectors @ definition.unit_rows[:SIZE]),
            Chain(ours, SIZE, batch=BATCH),
            torch.tensor(t, dtype=torch.float64),
            torch.tensor(s, dtype=torch.float64),
            Setting(BATCH, LENGTH, num_steps, process),
            keys,
        )
    tokens, revealed, moved = literal_step(definition, TOKENS, shows, vectors, t, s, num_steps, keys)
    assert torch.equal(found.z, tokens) and torch.equal(found.revealed, revealed)
    assert torch.equal(tokens[shows], TOKENS[shows]) and bool((tokens != TOKENS).any())
    assert 0 < int((revealed & ~shows).sum()) < int((~shows).sum())
    torch.testing.assert_close(found.cache, moved @ definition.unit_rows[:SIZE], rtol=0, atol=1e-4)


@pytest.mark.parametrize("prompted", [False, True])
def test_the_whole_chain(pair: tuple[HybridDenoiser, Definition], prompted: bool) -> None:
    """From noise of the published size at t = 0.999 to a last step after which every token shows."""
    ours, definition = pair
    num_steps, seeds = 5, list(range(32))
    keys = Keys.from_seeds(seeds)
    start = keys.stream("init").stream("start").normal(LENGTH, SIZE).double()
    times = [0.999 + (1e-5 - 0.999) * n / num_steps for n in range(num_steps + 1)]
    known = keys.randint(SIZE, LENGTH)
    given = (torch.arange(LENGTH) < 2).expand(32, LENGTH) & prompted
    tokens, shows, vectors = known, given, sigma_at(0.999) * start
    path = []
    for n, (t, s) in enumerate(itertools.pairwise(times)):
        step_keys = keys.stream("step", n)
        tokens, shows, vectors = literal_step(
            definition, tokens, shows, vectors, t, s, num_steps, step_keys, temperature=0.8
        )
        path.append(tokens)
    assert bool(shows.all())
    out = sample(
        ours,
        (32, LENGTH),
        sampler=METHOD.sampler(),
        num_steps=num_steps,
        vocab_size=SIZE,
        seeds=seeds,
        temperature=0.8,
        trajectory=True,
        tokens=known if prompted else None,
        given=given if prompted else None,
    )
    assert out.trajectory is not None and out.nfe == num_steps
    assert torch.equal(out.trajectory[1:], torch.stack(path))
    assert torch.equal(out.tokens, tokens)
