"""The exact law of what the samplers of uniform-state diffusion draw, on a problem that can be enumerated."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import toy
from failure_budget import accept, chi_square, reject
from pushforward import chain_law, total_variation
from simplax.concentration import Concentration, Constant, PerToken, Vanishing
from simplax.objectives.bridge import rate_density
from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.processes.simplex import Marginal
from simplax.processes.uniform import draw_bridge
from simplax.random import Keys
from simplax.samplers import Ancestral, Simplax, sample
from simplax.schedules import Linear, LogLinear
from simplax.times import Grid

SCHEDULE = LogLinear()
EXACT = toy.Uniform(SCHEDULE)
WRONG = toy.perturbed(toy.Uniform(SCHEDULE, leave_one_out=False), 0.8)
PI = torch.tensor([0.6, 0.1, 0.3], dtype=torch.float64)
MANY = 200_000


class Repeated:
    """The toy over K * copies ids, `copies` of each: its chain, read modulo K, has the toy's law.

    Atoms are used only where there are fewer of them than categories; this makes room for them.
    """

    def __init__(self, network: toy.Uniform | toy.perturbed, copies: int) -> None:
        self.network, self.copies = network, copies

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        return self.network(z % toy.K, t).repeat(1, 1, self.copies)


def counts(
    sampler: Ancestral | Simplax, num_steps: int, total: int, copies: int = 1, **options: object
) -> np.ndarray:
    network = WRONG if copies == 1 else Repeated(WRONG, copies)
    chunk, found = min(total, 10_000 if copies > 1 else 50_000), torch.zeros(toy.K**2)
    for start in range(0, total, chunk):
        samples = sample(
            network,
            (chunk, toy.L),
            sampler=sampler,
            schedule=SCHEDULE,
            num_steps=num_steps,
            vocab_size=toy.K * copies,
            seeds=range(start, start + chunk),
            **options,  # type: ignore[arg-type]
        )
        assert samples.nfe == num_steps
        found += toy.law(samples.tokens % toy.K)
    return found.numpy()


@pytest.mark.parametrize("num_steps", [1, 2, 4, 8])
def test_ancestral_law(num_steps: int) -> None:
    plain, tilted = (counts(Ancestral(), num_steps, MANY, pi=pi) for pi in (None, PI))
    accept(
        {
            "uniform": chi_square(plain, chain_law(WRONG, SCHEDULE, num_steps)),
            "unequal pi": chi_square(tilted, chain_law(WRONG, SCHEDULE, num_steps, pi=PI)),
        }
    )


@pytest.mark.parametrize("num_steps", [4, 8])
@pytest.mark.parametrize("eta", [1.0, 10.0])
def test_marginal_form_law(eta: float, num_steps: int) -> None:
    plain, tilted = (counts(Simplax(eta), num_steps, MANY, pi=pi) for pi in (None, PI))
    accept(
        {
            "uniform": chi_square(plain, chain_law(WRONG, SCHEDULE, num_steps, eta)),
            "unequal pi": chi_square(tilted, chain_law(WRONG, SCHEDULE, num_steps, eta, pi=PI)),
        }
    )
    reject(chi_square(plain, chain_law(WRONG, SCHEDULE, num_steps)))  # it is not UDLM's


def drawn_form_p_values(name: str, eta: float, num_steps: int, total: int) -> dict[str, float]:
    copies = {1.0: 18, 10.0: 129}[eta] if name == "atoms" else 1
    exact = chain_law(WRONG, SCHEDULE, num_steps, eta)
    p_values = {name: chi_square(counts(Simplax(eta, name), num_steps, total, copies), exact)}
    if name == "dense":
        tilted = chain_law(WRONG, SCHEDULE, num_steps, eta, pi=PI)
        p_values["unequal pi"] = chi_square(counts(Simplax(eta, name), num_steps, total, pi=PI), tilted)
    return p_values


@pytest.mark.parametrize(
    ("name", "eta", "total"), [("dense", 1.0, 8_000), ("dense", 10.0, 8_000), ("atoms", 1.0, 20_000)]
)
def test_drawn_forms_have_the_same_law(name: str, eta: float, total: int) -> None:
    accept(drawn_form_p_values(name, eta, 4, total))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "eta", "num_steps", "total"),
    [
        ("dense", 1.0, 8, 40_000),
        ("dense", 10.0, 8, 40_000),
        ("atoms", 1.0, 8, MANY),
        ("atoms", 10.0, 4, 20_000),
    ],
)
def test_drawn_forms_in_long_chains(name: str, eta: float, num_steps: int, total: int) -> None:
    accept(drawn_form_p_values(name, eta, num_steps, total))


def test_the_three_branches_are_the_reverse_posterior() -> None:
    """Every anchor, two predictions (one with an impossible category), unequal pi, also onto s = 0."""
    p_values = {}
    for logits in (torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.3, -torch.inf, 0.0])):
        for alpha_s, alpha_t in ((0.8, 0.3), (1.0, 0.6), (0.1, 0.0)):
            x_hat = torch.softmax(logits.double(), -1)
            for anchor in range(3):
                keys = Keys.from_seeds(range(40_000)).fold_in(anchor)
                a, t = (torch.tensor(v, dtype=torch.float64) for v in (alpha_s, alpha_t))
                prediction = Prediction(logits.expand(40_000, 1, 3))
                z = draw_bridge(torch.full((40_000, 1), anchor), prediction, a, t, Prior(3, PI), keys)
                # Bayes: q(z_s) q(z_t = anchor | z_s)
                keep = alpha_t / alpha_s
                exact = (alpha_s * x_hat + (1 - alpha_s) * PI) * (
                    keep * torch.eye(3)[anchor] + (1 - keep) * PI[anchor]
                )
                found = torch.bincount(z.flatten(), minlength=3).numpy()
                p_values[f"{logits.tolist()} {alpha_s} {anchor}"] = chi_square(found, exact)
    accept(p_values)


def test_udlm_converges_as_one_over_n_and_simplax_does_not() -> None:
    """With exact leave-one-out predictors; total variation from the exact pushforward, no sampling."""
    steps = np.array([16, 32, 64, 128, 256])

    def distances(eta: float) -> np.ndarray:
        return np.array([total_variation(chain_law(EXACT, SCHEDULE, int(n), eta), toy.JOINT) for n in steps])

    udlm = distances(0.0)
    slope = np.polyfit(np.log(steps[1:]), np.log(udlm[1:]), 1)[0]
    assert -1.1 < slope < -0.9 and udlm[-1] < 2e-3
    for eta in (1.0, 10.0):
        simplax = distances(eta)
        assert simplax.min() > 0.05 and simplax[-1] > 0.9 * simplax[-2]  # a floor, not a slow approach
    small = distances(0.01)
    assert small[-1] > 2 * udlm[-1]


def test_eta_that_vanishes_with_the_step_count_is_consistent() -> None:
    """A fixed number of redraws early in the chain keeps the floor low; eta like 1/N^2 removes it."""
    few, many = (total_variation(chain_law(EXACT, SCHEDULE, n, 16 / n**2), toy.JOINT) for n in (32, 128))
    assert many < 0.35 * few


def blended(alpha: Tensor, z: Tensor, own: float) -> Tensor:
    """Logits of the exact leave-one-out predictor times its token's own evidence to the power `own`."""
    evidence = alpha[..., None] * torch.eye(toy.K)[z] + (1 - alpha[..., None]) / toy.K
    others = torch.stack([evidence[:, 1] @ toy.JOINT.T, evidence[:, 0] @ toy.JOINT], dim=1)
    return others.log() + own * evidence.log()


def exact_objective(eta: float, own: float, nodes: int = 80) -> float:
    """Mean of the continuous-time objective over x, z and t (alpha = 1 - t), in nats per sequence, by quadrature."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    root = torch.from_numpy(points + 1) / 2  # t = root^2 takes the kink at t = 0 away
    x, z = (s.repeat(nodes, 1) for s in (toy.states().repeat_interleave(9, 0), toy.states().repeat(9, 1)))
    root, weight = (v.repeat_interleave(81) for v in (root, torch.from_numpy(weights) / 2))
    alpha = (1 - root**2)[:, None]
    chance = toy.JOINT.flatten()[toy.index(x)] * (alpha * (x == z) + (1 - alpha) / toy.K).prod(-1)
    prior = Prior(toy.K)
    state = Marginal(z, x, alpha, torch.full_like(alpha, eta), prior)
    density = rate_density(blended(alpha, z, own), x, state, alpha, Linear().rate(1 - alpha), prior)
    return float((weight * 2 * root * chance * density.sum(-1)).sum())


def test_udlm_objective_is_a_likelihood_bound_and_simplax_objective_is_not() -> None:
    assert exact_objective(0.0, own=0.0) == pytest.approx(toy.ENTROPY, abs=1e-5)  # tight at leave-one-out
    for own in (0.2, 0.5, 1.0):
        assert exact_objective(0.0, own) > toy.ENTROPY + 0.01
    assert exact_objective(1.0, own=0.5) < toy.ENTROPY - 0.05
    assert exact_objective(10.0, own=1.0) < toy.ENTROPY - 0.5  # at the exact posterior mean


def test_the_objectives_minimiser_moves_from_leave_one_out_to_the_posterior() -> None:
    """Along the blend, a small eta prefers no own evidence and a large eta all of it."""
    assert exact_objective(0.001, 0.0) < exact_objective(0.001, 0.2) < exact_objective(0.001, 1.0)
    assert exact_objective(100.0, 1.0) < exact_objective(100.0, 0.5) < exact_objective(100.0, 0.0)


@pytest.mark.parametrize(
    "eta", [Constant(2.0), Vanishing(10.0, power=2.0), Vanishing(10.0, until=0.4, least=1.0), PerToken(2.0)]
)
def test_scheduled_concentrations_have_their_chains_law(eta: Concentration) -> None:
    def value(t: float) -> float:
        return float(eta(torch.tensor(t, dtype=torch.float64), 5))

    exact = chain_law(WRONG, SCHEDULE, 5, value)
    accept([chi_square(counts(Simplax(eta), 5, MANY), exact)])
    assert all(value(t) <= eta.largest for t in (0.0, 0.5, 1.0))


def test_per_token_concentration_redraws_a_constant_number_of_times() -> None:
    t = torch.linspace(0, 1, 3, dtype=torch.float64)
    for num_steps in (4, 16, 1024):
        eta = PerToken(1.5)(t, num_steps)
        torch.testing.assert_close(num_steps * eta / (1 + eta), torch.full_like(t, 1.5), rtol=1e-12, atol=0)
    assert math.isfinite(PerToken(8.0)(t, 4).max()) and PerToken(8.0).largest > 1e5
    late = Vanishing(10.0, until=0.3)(torch.tensor([0.0, 0.3, 0.65, 1.0], dtype=torch.float64))
    torch.testing.assert_close(late, torch.tensor([0.0, 0.0, 5.0, 10.0], dtype=torch.float64))
    flat = Vanishing(10.0, power=0.0, until=0.3)(torch.tensor([0.0, 0.3, 0.65, 1.0], dtype=torch.float64))
    assert flat.tolist() == [0.0, 0.0, 10.0, 10.0]
    held = Vanishing(4.0, power=0.0, until=0.3, least=1.0)
    assert held(torch.tensor([0.0, 0.3, 0.65, 1.0])).tolist() == [1.0, 1.0, 4.0, 4.0]
    assert Vanishing(0.5, least=1.0).largest == 1.0


def test_pinned_positions_condition_the_chain() -> None:
    tokens, given = torch.tensor([[2, 0]]), torch.tensor([[True, False]])
    p_values = {}
    for name, sampler, eta in (("udlm", Ancestral(), 0.0), ("simplax", Simplax(10.0), 10.0)):
        found = counts(sampler, 4, 50_000, tokens=tokens.expand(50_000, 2), given=given.expand(50_000, 2))
        p_values[name] = chi_square(found, chain_law(WRONG, SCHEDULE, 4, eta, pinned={0: 2}))
    accept(p_values)


def test_temperature_acts_on_the_logits_before_the_bridge() -> None:
    exact = chain_law(lambda z, t: WRONG(z, t) / 0.5, SCHEDULE, 4, 1.0)
    found = counts(Simplax(1.0), 4, MANY, temperature=0.5)
    accept([chi_square(found, exact)])
    reject(chi_square(found, chain_law(WRONG, SCHEDULE, 4, 1.0)))


@pytest.mark.parametrize("last", ["posterior", "greedy"])
def test_other_ends_of_the_chain(last: str) -> None:
    end, total = 0.2, 100_000
    z = chain_law(WRONG, SCHEDULE, 3, end=end)
    x_hat = torch.softmax(WRONG(toy.states(), torch.full((9,), end)), -1)
    alpha = SCHEDULE.alpha(torch.tensor(end)).item()
    if last == "greedy":
        final = torch.eye(toy.K, dtype=torch.float64)[x_hat.argmax(-1)]
    else:
        final = x_hat * (alpha * torch.eye(toy.K)[toy.states()] + (1 - alpha) / toy.K)
        final = final / final.sum(-1, keepdim=True)
    exact = torch.einsum("n,na,nb->ab", z.flatten(), final[:, 0], final[:, 1])
    sampler = Ancestral(times=Grid(end=end), last=last)
    options = {"sampler": sampler, "schedule": SCHEDULE, "num_steps": 3, "vocab_size": toy.K}
    samples = sample(WRONG, (total, 2), seeds=range(total), **options)  # type: ignore[arg-type]
    assert samples.nfe == 4
    accept([chi_square(toy.law(samples.tokens), exact)])


def test_nothing_moves_where_the_clean_token_is_reached() -> None:
    """At t = 0 a token outside the nucleus of its own prediction has no posterior to be drawn from: it stays."""
    logits = torch.tensor([0.0, 1.0, -torch.inf]).expand(50, 4, 3)
    z = torch.full((50, 4), 2)
    one = torch.ones(1, dtype=torch.float64)
    drawn = draw_bridge(z, Prediction(logits), one, one, Prior(3), Keys.from_seeds(range(50)))
    assert torch.equal(drawn, z)
