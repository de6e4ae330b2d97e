"""The exact law of every sampler on the toy, as a product of transition tables, against its samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import failure_budget
import toy
from simplax.concentration import PerToken
from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.samplers import (
    Ancestral,
    FirstHitting,
    LeftToRight,
    MaskedAncestral,
    Psi,
    marginal_reanchor,
    sample,
)
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.kappa import Fixed, FromEta, MaxCapped, MaxRescale, Plateau, Remask, Segments
from simplax.schedules import LogLinear
from simplax.times import Grid

SCHEDULE = LogLinear()
COUNT = 20_000
EYE = torch.eye(toy.K + 1, dtype=torch.float64)
Law = Callable[[Tensor, Tensor, float, float, float], Tensor]


def uniform_law(x_hat: Tensor, z: Tensor, a_s: float, a_t: float, kappa: float) -> Tensor:
    """Step law (states, 2, K) by Bayes' rule from the definition of the process, not from the library."""

    def posterior(a: float) -> Tensor:
        keep = a_t / a
        forward = keep * EYE[:3, :3] + (1 - keep) / toy.K  # [z_s, z_t]
        joint = (a * x_hat + (1 - a) / toy.K) * forward.T[z]
        return joint / joint.sum(-1, keepdim=True)

    return kappa * posterior(a_s) + (1 - kappa) * (a_s * posterior(1.0) + (1 - a_s) / toy.K)


def masked_law(x_hat: Tensor, z: Tensor, a_s: float, a_t: float, kappa: float) -> Tensor:
    """Step law (states, 2, K + 1)."""
    wide = torch.nn.functional.pad(x_hat, (0, 1))

    def posterior(a: float) -> Tensor:
        stay = (1 - a) / (1 - a_t)
        return torch.where((z == toy.MASK)[..., None], stay * EYE[3] + (1 - stay) * wide, EYE[z])

    return kappa * posterior(a_s) + (1 - kappa) * (a_s * posterior(1.0) + (1 - a_s) * EYE[3])


def pairs(law: Tensor) -> Tensor:
    """Transition table from laws (states, 2, size) of two tokens that move independently."""
    return (law[:, 0, :, None] * law[:, 1, None, :]).flatten(1)


def exact_law(
    denoiser: Any, noise: str, times: Tensor, kappas: Tensor, last: str | None = None
) -> tuple[Tensor, int]:
    """Law of the chain's result over all states, and their alphabet."""
    size, law = (toy.K, uniform_law) if noise == "uniform" else (toy.K + 1, masked_law)
    z = toy.states(size)
    start = torch.full((size,), 1 / size, dtype=torch.float64) if noise == "uniform" else EYE[3]
    current = torch.outer(start, start).flatten()
    alpha = SCHEDULE.alpha(times)

    def x_hat(t: Tensor) -> Tensor:
        return denoiser(z, t.expand(len(z))).softmax(-1)

    for n in range(len(times) - 1):
        step = law(x_hat(times[n]), z, float(alpha[n + 1]), float(alpha[n]), float(kappas[n]))
        current = current @ pairs(step)
    if last == "posterior":
        current = current @ pairs(law(x_hat(times[-1]), z, 1.0, float(alpha[-1]), 1.0))
    if last == "greedy":
        best = x_hat(times[-1]).argmax(-1)
        best = torch.where(z == toy.MASK, best, z) if noise == "masked" else best
        current = current @ pairs(EYE[best][..., :size])
    return current, size


UNIFORM, MASKED = toy.Uniform(SCHEDULE), toy.Masked()
CASES: dict[str, tuple[Sampler[Any], Any]] = {
    "ancestral": (Ancestral(), UNIFORM),
    "ancestral, posterior end": (Ancestral(times=Grid(end=0.2), last="posterior"), UNIFORM),
    "ancestral, greedy end": (Ancestral(times=Grid(end=0.2), last="greedy"), UNIFORM),
    "masked": (MaskedAncestral(), MASKED),
    "masked, unfinished": (MaskedAncestral(times=Grid(end=0.3)), MASKED),
    "masked, posterior end": (MaskedAncestral(times=Grid(end=0.3), last="posterior"), MASKED),
    "masked, greedy end": (MaskedAncestral(times=Grid(end=0.3), last="greedy"), MASKED),
    "psi": (Psi(kappa=Fixed(0.7)), UNIFORM),
    "psi, pure corrector": (Psi(kappa=Fixed(0.0), times=Grid(end=0.1), last="posterior"), UNIFORM),
    "psi, masked": (Psi(noise="masked", kappa=Fixed(0.6)), MASKED),
    "psi, greedy end": (Psi(noise="masked", kappa=Fixed(0.6), times=Grid(end=0.2), last="greedy"), MASKED),
    "remasking": (Psi(noise="masked", kappa=Remask(0.1)), MASKED),
    "capped": (Psi(noise="masked", kappa=MaxCapped(0.2)), MASKED),
    "rescaled": (Psi(noise="masked", kappa=MaxRescale(0.3)), MASKED),
    "segments": (Psi(kappa=Segments(middle=Fixed(0.5))), UNIFORM),
    "plateau": (Psi(kappa=Fixed(0.8), times=Plateau(0.4, 0.4, 0.3), last="posterior"), UNIFORM),
    "marginal re-anchoring": (marginal_reanchor(1.0), UNIFORM),
    "a wrong network": (Psi(kappa=FromEta(0.5)), toy.perturbed(UNIFORM)),
}


def parts(sampler: Any, num_steps: int) -> tuple[str, Tensor, Tensor]:
    times = sampler.times(num_steps)
    if isinstance(sampler, Psi):
        return sampler.noise, times, sampler.kappa(times, SCHEDULE, num_steps)
    return ("masked" if isinstance(sampler, MaskedAncestral) else "uniform"), times, torch.ones_like(times)


def draw(sampler: Sampler[Any], denoiser: Any, num_steps: int | None, count: int = COUNT) -> Any:
    return sample(
        denoiser,
        (count, toy.L),
        sampler=sampler,
        schedule=SCHEDULE,
        num_steps=num_steps,
        vocab_size=toy.K,
        seeds=torch.arange(count),
    )


def test_samples_have_the_law_of_their_chain() -> None:
    p_values = {}
    for name, (sampler, denoiser) in CASES.items():
        for num_steps in (1, 2, 4, 8):
            noise, times, kappas = parts(sampler, num_steps)
            expected, size = exact_law(denoiser, noise, times, kappas, sampler.last)  # type: ignore[attr-defined]
            counts = toy.law(draw(sampler, denoiser, num_steps).tokens, size)
            p_values[f"{name}, {num_steps} steps"] = failure_budget.chi_square(counts, expected)
    failure_budget.accept(p_values)


def one_step(sampler: Any, denoiser: Any, per_state: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Counts of where one step of the sampler leads from every state, the states, and alpha at both ends."""
    size = toy.K if parts(sampler, 1)[0] == "uniform" else toy.K + 1
    z = toy.states(size).repeat_interleave(per_state, 0)
    setting = Setting(len(z), toy.L, Prior(toy.K), SCHEDULE, 1)
    state = sampler.pin(
        sampler.init(setting, Keys.from_seeds(torch.arange(len(z)))), z, torch.ones_like(z).bool()
    )
    t, s = sampler.grid(1)
    keys = Keys.from_seeds(torch.arange(len(z))).fold_in(1)
    after = sampler.tokens(sampler.step(state, Network(denoiser), t, s, setting, keys))
    counts = torch.stack([toy.law(chunk, size) for chunk in after.split(per_state)])
    return counts, toy.states(size), SCHEDULE.alpha(s), SCHEDULE.alpha(t)


class Network:
    """What samplers need of the loop's network, for calling a step by hand."""

    self_conditioning = False

    def __init__(self, denoiser: Any) -> None:
        self.denoiser = denoiser

    def __call__(self, z: Tensor, t: Tensor, *, rows: Tensor | None = None, **context: Any) -> Prediction:
        return Prediction(self.denoiser(z, t.expand(len(z))))


STEPS = Grid(start=0.7, end=0.3)
ONE_STEP = {
    "ancestral": Ancestral(times=STEPS),
    "masked": MaskedAncestral(times=STEPS),
    **{
        f"psi {noise} {kappa}": Psi(noise, kappa, STEPS)
        for noise in ("uniform", "masked")
        for kappa in (Fixed(0.0), Fixed(0.7), FromEta(2.0), Remask(0.1), MaxCapped(0.2), MaxRescale(0.5))
    },
}


@pytest.mark.parametrize("name", ONE_STEP)
def test_one_step_from_every_state(name: str) -> None:
    """Sharper than the end of a chain, whose law hardly depends on kappa."""
    sampler = ONE_STEP[name]
    noise, _, kappas = parts(sampler, 1)
    denoiser = toy.perturbed(UNIFORM if noise == "uniform" else MASKED, 1.0)
    counts, z, a_s, a_t = one_step(sampler, denoiser, 8000)
    x_hat = denoiser(z, torch.full((len(z),), 0.7, dtype=torch.float64)).softmax(-1)
    law = uniform_law if noise == "uniform" else masked_law

    def rows(kappa: float) -> list[float]:
        table = pairs(law(x_hat, z, float(a_s), float(a_t), kappa))
        assert (counts[table == 0] == 0).all()
        return [failure_budget.chi_square(c, p) for c, p in zip(counts, table) if (p > 0).sum() > 1]

    failure_budget.accept(rows(float(kappas[0])))
    failure_budget.reject(min(rows(float(kappas[0]) - 0.15 if kappas[0] > 0.5 else 0.15)))


def distance(sampler: Any, denoiser: Any, num_steps: int) -> float:
    """Total variation between the chain's exact law and the data's."""
    law, size = exact_law(denoiser, *parts(sampler, num_steps), sampler.last)
    target = torch.nn.functional.pad(toy.JOINT, (0, size - toy.K, 0, size - toy.K)).flatten()
    return 0.5 * float((law - target).abs().sum())


@pytest.mark.parametrize(
    ("sampler", "denoiser"),
    [
        (Ancestral(), UNIFORM),
        (MaskedAncestral(), MASKED),
        (marginal_reanchor(PerToken(2.0)), UNIFORM),
        (Psi(noise="masked", kappa=FromEta(PerToken(2.0))), MASKED),
    ],
)
def test_consistent_samplers_converge_as_one_over_n(sampler: Any, denoiser: Any) -> None:
    far, near = distance(sampler, denoiser, 128), distance(sampler, denoiser, 256)
    assert near < 0.01
    assert far / near == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize(
    ("sampler", "denoiser"),
    [
        (marginal_reanchor(1.0), UNIFORM),
        (Psi(kappa=Fixed(0.0)), UNIFORM),
        (Psi("masked", Fixed(0.5)), MASKED),
    ],
)
def test_a_fixed_share_of_redraws_converges_slowly(sampler: Any, denoiser: Any) -> None:
    far, near = distance(sampler, denoiser, 128), distance(sampler, denoiser, 512)
    assert near < 0.011
    assert far / near == pytest.approx(2.0, rel=0.15)


def test_first_hitting_is_exact_and_calls_once_per_position() -> None:
    result = draw(FirstHitting(), MASKED, None)
    failure_budget.accept([failure_budget.chi_square(toy.law(result.tokens), toy.JOINT.flatten())])
    assert result.nfe == toy.L


def test_first_hitting_times_are_order_statistics() -> None:
    """With L masks the first jump is at the largest of L uniform times (in units of 1 - alpha)."""
    seen: list[Tensor] = []

    def record(z: Tensor, t: Tensor) -> Tensor:
        seen.append(t)
        return torch.zeros(len(z), 4, 3)

    sample(record, (20_000, 4), sampler=FirstHitting(), schedule=SCHEDULE, vocab_size=3, seeds=range(20_000))
    from scipy.stats import beta, kstest

    p_values = [kstest(t.double().numpy(), beta(4 - n, n + 1).cdf).pvalue for n, t in enumerate(seen)]
    failure_budget.accept(p_values)


def test_left_to_right_is_exact() -> None:
    class Exact:
        vocab_size = toy.K

        def __call__(self, z: Tensor, t: Tensor) -> Tensor:
            first = toy.JOINT.sum(1).log().expand(len(z), 1, toy.K)
            if z.shape[1] == 1:
                return first
            return torch.cat([first, toy.JOINT[z[:, 1]].log()[:, None]], dim=1)

    result = draw(LeftToRight(), Exact(), None)
    failure_budget.accept([failure_budget.chi_square(toy.law(result.tokens), toy.JOINT.flatten())])
    assert result.nfe == toy.L


def test_masked_sampler_calls_the_network_only_when_a_mask_is_lifted() -> None:
    num_steps = 16
    result = draw(MaskedAncestral(), MASKED, num_steps, 4000)
    # two masks, lifted in steps that are independent and (but for eps) uniform: P(same step) = 1/N
    assert result.nfe == pytest.approx(2 - 1 / num_steps, abs=0.03)
    assert result.calls <= num_steps
    alone = draw(MaskedAncestral(), MASKED, num_steps, 100)
    assert torch.equal(alone.tokens, result.tokens[:100])


def test_steps_that_leave_no_choice_are_checked() -> None:
    with pytest.raises(ValueError, match="exactly 2 steps"):
        draw(FirstHitting(), MASKED, 5, 4)
    with pytest.raises(ValueError, match="num_steps is missing"):
        draw(Ancestral(), UNIFORM, None, 4)


@pytest.mark.parametrize(
    "build", [lambda: MaskedAncestral(last="best"), lambda: Psi(noise="wind"), lambda: Psi(last="x")]
)
def test_unknown_options_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="choose"):
        build()
