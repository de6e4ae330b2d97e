"""LangFlow: an exact network makes the likelihood bound exact, and the schedule learns from the loss alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from simplax import functional as F
from simplax.methods import LangFlow
from simplax.nn import Architecture
from simplax.nn.langflow import EmbeddingDenoiser
from simplax.objectives.flow import flow_nll
from simplax.random import Keys
from simplax.samplers.loop import sample
from simplax.times import stratified
from simplax.typing import Batch, StepContext
from toy import ENTROPY, JOINT, index, states

SMALL = Architecture(width=8, depth=1, heads=2, cond_dim=8)


@dataclass(frozen=True)
class Exact:
    """The posterior of the two-token problem given noisy embeddings; `loc` puts gamma where tokens are told apart."""

    loc: float = -1.0
    vocab_size: int = 3

    def rows(self) -> Tensor:
        angle = 2 * math.pi * torch.arange(3, dtype=torch.float64) / 3
        return math.sqrt(2) * torch.stack([angle.cos(), angle.sin()], -1)

    def gamma(self, t: Tensor) -> Tensor:
        return F.langflow_gamma(t, self.loc, 0.8)

    def __call__(self, z: Tensor, t: Tensor, *, given: Tensor | None = None) -> Tensor:
        score = z.double() @ self.rows().T
        evidence = F.langflow_skip(self.gamma(t)).reshape(-1, 1, 1) * score
        if given is not None:
            certain = torch.where(score == score.amax(-1, keepdim=True), 0.0, -1e3)
            evidence = torch.where(given.unsqueeze(-1), certain, evidence)
        log_joint = JOINT.log() + evidence[:, 0].unsqueeze(2) + evidence[:, 1].unsqueeze(1)
        return torch.stack([torch.logsumexp(log_joint, 2), torch.logsumexp(log_joint, 1)], 1)


def averaged(given: Tensor, draws: int = 300) -> Tensor:
    """Mean bound (9,) for each of the nine sequences."""
    tokens = states().repeat(draws, 1)
    batch = Batch.of(tokens, given.expand(tokens.shape))
    loss = flow_nll(Exact(), batch, Keys.from_seeds(range(len(tokens))), 128)  # type: ignore[arg-type]
    return loss.per_token.sum(-1).view(draws, 9).mean(0)


def test_the_bound_is_exact_for_the_exact_network() -> None:
    bound = averaged(torch.tensor([False, False]))
    torch.testing.assert_close(bound, -JOINT.flatten().log(), rtol=0, atol=0.15)
    assert float(JOINT.flatten() @ bound) == pytest.approx(ENTROPY, abs=0.04)


def test_the_bound_is_conditional_on_given_tokens() -> None:
    bound = averaged(torch.tensor([False, True]))
    torch.testing.assert_close(bound, -(JOINT / JOINT.sum(0)).flatten().log(), rtol=0, atol=0.15)


def test_the_sampler_has_the_law_of_the_data_for_the_exact_network() -> None:
    out = sample(
        Exact(),
        (4000, 2),
        sampler=LangFlow().sampler(),
        schedule=LangFlow().schedule,
        num_steps=60,
        vocab_size=3,
        seeds=list(range(4000)),
    )
    law = torch.bincount(index(out.tokens), minlength=9) / 4000
    torch.testing.assert_close(law.double(), JOINT.flatten(), rtol=0, atol=0.025)
    assert out.nfe == 60


def built(**options: object) -> tuple[LangFlow, EmbeddingDenoiser]:
    method = LangFlow(**options)  # type: ignore[arg-type]
    torch.manual_seed(0)
    denoiser = method.build(5, 3, SMALL)
    assert isinstance(denoiser, EmbeddingDenoiser)
    return method, denoiser


def context(count: int, step: int = 0) -> StepContext:
    return StepContext(Keys.from_seeds(range(count)), stratified(count, 0, step), step)


def test_only_the_misfit_moves_the_schedule_and_it_adds_no_value() -> None:
    method, denoiser = built(self_conditioning=0.0, skip_warmup=0)
    batch = Batch.of(Keys.from_seeds(range(16)).randint(5, 3))
    loss = method.loss(denoiser, batch, context(16))
    gamma = denoiser.gamma(context(16).u)
    misfit = (loss.per_token.mean(-1).detach() - denoiser.noise.expected(gamma)) ** 2
    parameters = list(denoiser.noise.parameters())
    expected = torch.autograd.grad(misfit.mean(), parameters)
    actual = torch.autograd.grad(loss.mean(), parameters)
    for one, other in zip(actual, expected):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)
    assert float(loss.mean().detach()) < 2 * math.log(5)


def test_the_schedule_fits_a_known_curve() -> None:
    """Fed cross-entropies of a Gumbel shape, the regression finds its three numbers."""
    _, denoiser = built()
    noise = denoiser.noise
    gamma = torch.linspace(-4, 12, 200, dtype=torch.float64)
    target = 1.7 * torch.exp(-torch.exp(-(gamma - 2.0) / 1.3))
    optimizer = torch.optim.Adam(noise.parameters(), lr=0.02)
    for _ in range(600):
        optimizer.zero_grad()
        ((noise.expected(gamma) - target) ** 2).mean().backward()
        optimizer.step()
    found = torch.stack([noise.loc, noise.scale, noise.entropy]).detach()
    torch.testing.assert_close(found, torch.tensor([2.0, 1.3, 1.7]), rtol=0, atol=0.03)


def test_the_schedule_starts_at_the_released_numbers_for_the_released_size() -> None:
    from simplax.nn.langflow import GumbelSchedule

    noise = GumbelSchedule(50257, 768)
    assert (noise.loc.item(), noise.scale.item()) == pytest.approx((4.723, 0.852))
    assert noise.entropy.item() == pytest.approx(math.log(50257))


def test_the_skip_fades_in_during_training_only() -> None:
    method, denoiser = built(self_conditioning=0.0, skip_warmup=10)
    batch = Batch.of(Keys.from_seeds(range(8)).randint(5, 3))
    start = method.loss(denoiser, batch, context(8)).per_token
    torch.testing.assert_close(start.detach(), torch.full((8, 3), math.log(5)))  # a fresh head says nothing
    late = method.loss(denoiser, batch, StepContext(context(8).keys, context(8).u, 10)).per_token
    evaluated = method.loss(denoiser.eval(), batch, context(8)).per_token
    torch.testing.assert_close(evaluated, late)
    assert float((late - start).detach().abs().max()) > 0.01


def test_self_conditioning_touches_the_chosen_samples() -> None:
    method, denoiser = built(self_conditioning=0.5, skip_warmup=0)
    torch.nn.init.normal_(denoiser.mixer.weight)
    torch.nn.init.normal_(denoiser.trunk.head.weight)
    batch, ctx = Batch.of(Keys.from_seeds(range(32)).randint(5, 3)), context(32)
    without = LangFlow(self_conditioning=0.0, skip_warmup=0).loss(denoiser, batch, ctx).per_token
    differs = (method.loss(denoiser, batch, ctx).per_token - without).abs().amax(-1) > 1e-6
    chosen = ctx.keys.fold_in(1).uniform(1)[:, 0] < 0.5
    assert torch.equal(differs, chosen) and 0 < int(chosen.sum()) < 32
