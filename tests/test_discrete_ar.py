"""Autoregression: exact likelihood, causality, the key-value cache, prefixes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import failure_budget
from simplax.methods import AR
from simplax.nn import Architecture
from simplax.random import Keys
from simplax.samplers import LeftToRight, sample
from simplax.typing import Batch, StepContext

K, L = 3, 4
SMALL = Architecture(width=16, depth=2, heads=2)
EVERY = torch.tensor(list(itertools.product(range(K), repeat=L)))


def network(method: AR, size: int = K, length: int = L) -> torch.nn.Module:
    """Random weights large enough that the conditionals differ."""
    denoiser = method.build(size, length, SMALL).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            if parameter.ndim == 2:
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return denoiser


def context(count: int) -> StepContext:
    return StepContext(Keys.from_seeds(torch.arange(count)), torch.rand(count))


@torch.no_grad()
def log_likelihood(method: AR, denoiser: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return -method.nll(denoiser, Batch.of(tokens), context(len(tokens))).per_token.double().sum(-1)


def draw(method: AR, denoiser: Any, count: int, **options: Any) -> Any:
    sampler = options.pop("sampler", method.sampler())
    seeds = torch.arange(count)
    return sample(denoiser, (count, L), sampler=sampler, vocab_size=K, seeds=seeds, **options)


def test_probabilities_of_all_sequences_sum_to_one() -> None:
    method = AR()
    total = log_likelihood(method, network(method), EVERY).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-5)


def test_a_start_symbol_in_the_data_is_not_scored() -> None:
    method = AR(bos_in_data=True)
    denoiser = network(method)
    loss = method.nll(denoiser, Batch.of(EVERY), context(len(EVERY)))
    assert not loss.scored[:, 0].any() and loss.scored[:, 1:].all() and (loss.per_token[:, 0] == 0).all()
    total = log_likelihood(method, denoiser, EVERY).exp().view(K, -1).sum(1)
    torch.testing.assert_close(total, torch.ones(K, dtype=torch.float64), rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_token_does_not_see_itself_or_later_ones() -> None:
    method = AR()
    denoiser = network(method)
    tokens = torch.tensor([[0, 1, 2, 0]])
    base = method.loss(denoiser, Batch.of(tokens), context(1)).per_token
    for place in range(L):
        changed = tokens.clone()
        changed[0, place] = (changed[0, place] + 1) % K
        other = method.loss(denoiser, Batch.of(changed), context(1)).per_token
        torch.testing.assert_close(other[:, :place], base[:, :place])
        assert (other[:, place:] != base[:, place:]).all()


def test_cached_sampling_equals_uncached() -> None:
    method = AR()
    denoiser = network(method)
    cached = draw(method, denoiser, 300)
    uncached = draw(method, denoiser, 300, sampler=LeftToRight(cache=False))
    foreign = draw(method, lambda z, t: denoiser(z), 300)
    assert torch.equal(cached.tokens, uncached.tokens) and torch.equal(cached.tokens, foreign.tokens)
    assert cached.nfe == L


def test_samples_have_the_likelihood_the_model_says() -> None:
    method = AR()
    denoiser = network(method)
    tokens = draw(method, denoiser, 30_000).tokens
    counts = torch.bincount(tokens @ torch.tensor([27, 9, 3, 1]), minlength=K**L)
    law = log_likelihood(method, denoiser, EVERY).exp()
    failure_budget.accept([failure_budget.chi_square(counts, law)])


def test_top_p_and_temperature_reach_every_step() -> None:
    method = AR()
    denoiser = network(method)
    greedy = torch.zeros(1, 0, dtype=torch.long)
    with torch.no_grad():
        for _ in range(L):
            logits = denoiser(torch.nn.functional.pad(greedy, (1, 0), value=K))
            greedy = torch.cat([greedy, logits[:, -1:].argmax(-1)], dim=1)
    assert (draw(method, denoiser, 50, top_p=1e-6).tokens == greedy).all()
    assert (draw(method, denoiser, 50, temperature=1e-4).tokens == greedy).all()


def test_prefixes_are_honoured_and_conditioned_on() -> None:
    method = AR()
    denoiser = network(method)
    count = 30_000
    tokens = torch.tensor([2, 1, 0, 0]).expand(count, L)
    given = torch.tensor([True, True, False, False]).expand(count, L)
    result = draw(method, denoiser, count, tokens=tokens, given=given)
    assert torch.equal(result.tokens[:, :2], tokens[:, :2])
    assert result.nfe == 2  # the prefix is read in the first call
    chosen = EVERY[(EVERY[:, 0] == 2) & (EVERY[:, 1] == 1)]
    law = log_likelihood(method, denoiser, chosen).softmax(0)
    counts = torch.bincount(result.tokens[:, 2] * K + result.tokens[:, 3], minlength=K * K)
    failure_budget.accept([failure_budget.chi_square(counts, law)])


def test_prefixes_of_different_lengths_share_a_batch() -> None:
    method = AR()
    denoiser = network(method)
    tokens = torch.tensor([[2, 2, 2, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    given = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
    together = draw(method, denoiser, 3, tokens=tokens, given=given).tokens
    assert (together[given] == tokens[given]).all()
    assert torch.equal(together[2:], draw(method, denoiser, 3).tokens[2:])


def test_gaps_are_refused() -> None:
    method = AR()
    given = torch.tensor([[True, False, True, False]])
    with pytest.raises(ValueError, match="prefix"):
        draw(method, network(method), 1, tokens=torch.zeros(1, L).long(), given=given)


def test_a_model_without_a_start_symbol_needs_the_first_token() -> None:
    method = AR(bos_in_data=True)
    denoiser = network(method)
    with pytest.raises(ValueError, match="position 0"):
        draw(method, denoiser, 2)
    first = torch.tensor([[True, False, False, False]]).expand(5, L)
    tokens = torch.full((5, L), 2)
    cached = draw(method, denoiser, 5, tokens=tokens, given=first)
    uncached = draw(
        method, denoiser, 5, tokens=tokens, given=first, sampler=LeftToRight(cache=False, bos_in_data=True)
    )
    assert torch.equal(cached.tokens, uncached.tokens) and (cached.tokens[:, 0] == 2).all()
    assert cached.nfe == L - 1
