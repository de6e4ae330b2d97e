"""Losses as training calls them equal the paper's functions, on every form of the simplex state."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simplax import functional
from simplax.concentration import Vanishing
from simplax.methods import UDLM, Simplax
from simplax.objectives.bridge import SURROGATES, FiniteStep, bridge_kl, rate_density
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Dense, Marginal, form
from simplax.random import Keys
from simplax.schedules import LogLinear
from simplax.times import TimeLaw
from simplax.typing import Batch, StepContext
from strategies import thorough

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@dataclass(frozen=True)
class Case:
    """One random problem in float64, batch 2 and length 3."""

    k: int
    seed: int
    late: float
    uniform: bool

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        alpha_t, alpha_s = torch.sigmoid(2 * normal(2, 2, 1)).sort(dim=0).values * (1 - self.late)
        pi = None if self.uniform else torch.softmax(normal(self.k), -1)
        fields = {
            "logits": 3 * normal(2, 3, self.k),
            "x": torch.randint(self.k, (2, 3), generator=generator),
            "z": torch.randint(self.k, (2, 3), generator=generator),
            "w": torch.softmax(3 * normal(2, 3, self.k), -1),
            "atoms": Atoms(
                torch.randint(self.k, (2, 3, 4), generator=generator), torch.softmax(3 * normal(2, 3, 4), -1)
            ),
            "alpha_t": alpha_t,
            "alpha_s": alpha_s,
            "rate": normal(2, 1).exp(),
            "eta": normal(2, 1).exp(),
            "prior": Prior(self.k, pi),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def x_hat(self) -> Tensor:
        return torch.softmax(self.logits, -1)

    @property
    def pi(self) -> Tensor:
        return self.prior.dense(self.logits)

    @property
    def marginal(self) -> Marginal:
        return Marginal(self.z, self.x, self.alpha_t, self.eta, self.prior)

    def states(self) -> list[Dense | Atoms | Marginal]:
        return [Dense(self.w), self.atoms, self.marginal]


cases = st.builds(
    Case,
    k=st.integers(2, 9),
    seed=st.integers(0, 10**6),
    late=st.sampled_from([0.0, 0.9, 0.999]),
    uniform=st.booleans(),
)


@thorough
@given(cases)
def test_rate_density_is_the_papers_on_every_form(c: Case) -> None:
    for state in c.states():
        value = rate_density(c.logits, c.x, state, c.alpha_t, c.rate, c.prior)
        w = state.dense(c.k).w
        exact = functional.relaxed_bridge_rate(c.x, c.x_hat, w, c.alpha_t, c.rate, c.pi)
        torch.testing.assert_close(value, exact, **CLOSE)


@thorough
@given(cases, st.sampled_from(["inside", "to zero"]))
def test_bridge_kl_is_the_papers_on_every_form(c: Case, where: str) -> None:
    alpha_s = c.alpha_s if where == "inside" else torch.ones_like(c.alpha_s)
    for state in c.states():
        value = bridge_kl(c.logits, c.x, state, alpha_s, c.alpha_t, c.prior)
        exact = functional.relaxed_bridge(c.x, c.x_hat, state.dense(c.k).w, alpha_s, c.alpha_t, c.pi)
        torch.testing.assert_close(value, exact, **CLOSE)


@thorough
@given(cases)
def test_zero_concentration_is_udlm(c: Case) -> None:
    state = Marginal(c.z, c.x, c.alpha_t, torch.zeros_like(c.alpha_t), c.prior)
    value = rate_density(c.logits, c.x, state, c.alpha_t, c.rate, c.prior)
    exact = functional.uniform_rate(c.x, c.x_hat, c.z, c.alpha_t, c.rate, c.pi)
    torch.testing.assert_close(value, exact, **CLOSE)


@thorough
@given(cases)
def test_gradients_are_those_of_the_paper(c: Case) -> None:
    for state in c.states():
        logits = c.logits.clone().requires_grad_()
        w = state.dense(c.k).w
        losses = (
            (
                rate_density(logits, c.x, state, c.alpha_t, c.rate, c.prior),
                functional.relaxed_bridge_rate(c.x, logits.softmax(-1), w, c.alpha_t, c.rate, c.pi),
            ),
            (
                bridge_kl(logits, c.x, state, torch.ones_like(c.alpha_s), c.alpha_t, c.prior),
                functional.relaxed_bridge(c.x, logits.softmax(-1), w, 1.0, c.alpha_t, c.pi),
            ),
        )
        for ours, exact in losses:
            (gradient,) = torch.autograd.grad(ours.sum(), logits)
            (expected,) = torch.autograd.grad(exact.sum(), logits)
            torch.testing.assert_close(gradient, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("t", [1e-3, 0.3, 0.9, 0.999, 1.0])
def test_float32_keeps_its_digits_at_every_time(t: float) -> None:
    """Also near t = 1, where the literal form plus its constant loses a third of the value."""
    k, shape = 2000, (16, 4)
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(*shape, k, generator=generator)
    x = torch.randint(k, shape, generator=generator)
    schedule, times = LogLinear(), torch.full((16, 1), t, dtype=torch.float64)
    alpha, alpha_s, rate = (
        schedule.alpha(times),
        schedule.alpha((times - 1e-3).clamp(min=0)),
        schedule.rate(times),
    )
    eta = torch.full_like(alpha, 0.3)
    prior, x_hat = Prior(k), logits.double().softmax(-1)
    for name in ("atoms", "marginal"):
        state, _ = form(name).draw(x, alpha, eta, 0.3, prior, Keys.from_seeds(range(16)))
        w, pi = state.dense(k).w, prior.dense(x_hat)
        reference = x_hat.clone().requires_grad_()
        exact = functional.relaxed_bridge_rate(x, reference, w, alpha, rate, pi, validate=False)
        value = rate_density(logits.requires_grad_(), x, state, alpha, rate, prior)
        torch.testing.assert_close(value.double(), exact, rtol=1e-4 if t < 0.01 else 5e-6, atol=0)
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        (by_hat,) = torch.autograd.grad(exact.sum(), reference)
        expected = x_hat * (by_hat - (x_hat * by_hat).sum(-1, keepdim=True))
        assert (gradient - expected).norm() < 2e-4 * expected.norm()
        exact_step = functional.relaxed_bridge(x, x_hat, w, alpha_s, alpha, pi, validate=False)
        step = bridge_kl(logits, x, state, alpha_s, alpha, prior).double()
        torch.testing.assert_close(step, exact_step, rtol=1e-4 if t < 0.01 else 1e-5, atol=0)


@pytest.mark.parametrize("rest", [1e-6, 1e-9, 1e-13])
@pytest.mark.parametrize("name", ["dense", "atoms", "marginal"])
def test_float32_logits_survive_times_near_zero(name: str, rest: float) -> None:
    """There 1 - alpha vanishes in float32, as with a cubic schedule at t = 1e-3; the loss must still be right."""
    k, shape = 50, (4, 3)
    generator = torch.Generator().manual_seed(1)
    logits = (8 * torch.randn(*shape, k, generator=generator)).requires_grad_()
    x = torch.randint(k, shape, generator=generator)
    alpha = torch.full((4, 1), 1.0, dtype=torch.float64) - rest
    one = torch.ones_like(alpha)
    state, _ = form(name).draw(x, alpha, 0.3 * one, 0.3, Prior(k), Keys.from_seeds(range(4)))
    reference = logits.detach().double().requires_grad_()
    exact = rate_density(reference, x, state, alpha, one, Prior(k))
    value = rate_density(logits, x, state, alpha, one, Prior(k))
    torch.testing.assert_close(value.double(), exact, rtol=1e-4, atol=0)
    (gradient,), (expected,) = (
        torch.autograd.grad(loss.sum(), at) for loss, at in ((value, logits), (exact, reference))
    )
    assert (gradient - expected).norm() < 1e-4 * expected.norm()
    step = bridge_kl(logits, x, state, one, alpha, Prior(k)).double()
    torch.testing.assert_close(step, bridge_kl(reference, x, state, one, alpha, Prior(k)), rtol=1e-4, atol=0)
    joint = FiniteStep("loose_joint", 1)
    values = [joint(v, x, state, 1 - 0.1 * (1 - alpha), alpha, one, Prior(k)) for v in (logits, reference)]
    torch.testing.assert_close(values[0].double(), values[1], rtol=1e-4, atol=0)


def test_published_numbers() -> None:
    row, place, v = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(6), indexing="ij")
    logits = 2 * torch.sin((1 + 7 * row + 3 * place + 2 * v).double())
    x, z = torch.tensor([[0, 2, 4], [1, 3, 5]]), torch.tensor([[0, 3, 4], [2, 3, 0]])
    t = torch.tensor([[0.25], [0.8]], dtype=torch.float64)
    alpha, rate, prior = LogLinear().alpha(t), LogLinear().rate(t), Prior(6)
    udlm = [[0.24805737, 2.53397621, 0.42955607], [0.89786931, 1.73659209, 1.65638410]]
    simplax = [[4.36191136, 4.17850529, 4.10591325], [1.14532869, 1.27647535, 1.30462708]]
    w = Dense((torch.arange(6).double() + 1).expand(2, 3, 6) / 21)
    vertex = Marginal(z, x, alpha, torch.zeros_like(alpha), prior)
    for state, expected in ((vertex, udlm), (w, simplax)):
        value = rate_density(logits, x, state, alpha, rate, prior)
        torch.testing.assert_close(value, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8)


@thorough
@given(cases, st.sampled_from(sorted(SURROGATES)))
def test_finite_step_surrogates(c: Case, name: str) -> None:
    eta = () if name in ("bridge", "tight_discrete") else (c.eta,)
    function = functional.relaxed_bridge if name == "bridge" else getattr(functional, name)
    surrogate = FiniteStep(name, num_steps=50)
    for state in (Dense(c.w), c.atoms, *([c.marginal] if surrogate.linear else [])):
        value = surrogate(c.logits, c.x, state, c.alpha_s, c.alpha_t, c.eta, c.prior)
        exact = function(c.x, c.x_hat, state.dense(c.k).w, c.alpha_s, c.alpha_t, *eta, c.pi)
        torch.testing.assert_close(value, 50 * exact, rtol=1e-9, atol=1e-10)
    if (
        surrogate.linear
    ):  # the mean over decodes is then the value at the mean, which is what a marginal holds
        corners = torch.eye(c.k, dtype=torch.float64)[:, None, None].expand(-1, 2, 3, -1)
        at = function(c.x, c.x_hat, corners, c.alpha_s, c.alpha_t, *eta, c.pi)
        exact = function(c.x, c.x_hat, c.w, c.alpha_s, c.alpha_t, *eta, c.pi)
        torch.testing.assert_close((c.w * at.movedim(0, -1)).sum(-1), exact, rtol=1e-9, atol=1e-10)
    else:
        with pytest.raises(ValueError, match="not linear in w: use form='atoms' or form='dense'"):
            surrogate(c.logits, c.x, c.marginal, c.alpha_s, c.alpha_t, c.eta, c.prior)


class Table(torch.nn.Module):
    """A denoiser that shows what it was given: logits from ids, or from the state, by one fixed matrix."""

    vocab_size = 12

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(12, 12, generator=generator))
        self.seen: object = None

    def forward(self, z: object, t: Tensor) -> Tensor:
        self.seen = z
        if isinstance(z, Atoms):
            z = z.dense(12).w
        assert isinstance(z, Tensor)
        return self.table[z] if z.dtype == torch.long else z @ self.table


def problem() -> tuple[Batch, StepContext]:
    tokens = torch.arange(24).reshape(4, 6) % 12
    given_here = torch.arange(6).expand(4, 6) < 2
    return Batch.of(tokens, given_here), StepContext(
        Keys.from_seeds(range(4)), torch.linspace(0.1, 0.9, 4).double()
    )


def test_methods_agree_where_they_must() -> None:
    batch, context = problem()
    udlm = UDLM().loss(Table(), batch, context)
    for kind in ("marginal", "atoms", "dense"):
        simplax = Simplax(concentration=0.0, form=kind).loss(Table(), batch, context)
        torch.testing.assert_close(simplax.per_token, udlm.per_token, rtol=1e-5, atol=1e-6)
    assert (udlm.per_token[batch.given] == 0).all() and (udlm.per_token[~batch.given] > 0).all()
    constant = UDLM(weighting="constant").loss(Table(), batch, context).per_token
    rate = LogLinear().rate(TimeLaw()(context.u))[:, None]
    torch.testing.assert_close(constant * rate.float(), udlm.per_token, rtol=1e-5, atol=0)


def test_a_finite_step_tends_to_the_density() -> None:
    batch, context = problem()
    density = Simplax(concentration=0.5).loss(Table(), batch, context).per_token
    errors = []
    for num_steps in (100, 200, 400, 800):
        step = Simplax(concentration=0.5, step=FiniteStep(num_steps=num_steps)).loss(Table(), batch, context)
        errors.append((step.per_token - density).abs().max().item())
    assert all(0.4 < late / early < 0.6 for early, late in itertools.pairwise(errors)), errors


def test_given_positions_reach_the_network_clean() -> None:
    batch, context = problem()
    for method in (
        UDLM(),
        Simplax(),
        Simplax(form="atoms", reads_w=True),
        Simplax(form="dense", reads_w=True),
    ):
        denoiser = Table()
        method.loss(denoiser, batch, context).mean().backward()
        seen = denoiser.seen
        w = seen.dense(12).w if isinstance(seen, Atoms) else seen
        assert isinstance(w, Tensor)
        ids = w if w.dtype == torch.long else w.argmax(-1)
        assert torch.equal(ids[batch.given], batch.tokens[batch.given])
        assert w.dtype == torch.long or torch.equal(w[batch.given].max(-1).values, torch.ones(8))
        assert denoiser.table.grad is not None and torch.isfinite(denoiser.table.grad).all()


def test_what_methods_refuse() -> None:
    with pytest.raises(ValueError, match="the marginal form draws no w"):
        Simplax(form="marginal", reads_w=True)
    with pytest.raises(ValueError, match="unknown form of the simplex state 'sparse'"):
        Simplax(form="sparse")
    with pytest.raises(ValueError, match="eta must not be negative"):
        Simplax(concentration=-1.0)
    with pytest.raises(ValueError, match="unknown weighting 'flat': choose elbo or constant"):
        UDLM(weighting="flat")
    with pytest.raises(ValueError, match="unknown surrogate 'loose': choose one of bridge"):
        FiniteStep("loose")
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        FiniteStep("bridge", 0)
    with pytest.raises(ValueError, match="tight_joint is not linear in w"):
        Simplax(step=FiniteStep("tight_joint"))
    for options in ({"times": TimeLaw(0.0)}, {"concentration": 0.0}, {"concentration": Vanishing(until=0.1)}):
        with pytest.raises(ValueError, match="loose_joint has a simplex state as its target"):
            Simplax(step=FiniteStep("loose_joint"), **options)
    with pytest.raises(ValueError, match="must have an attribute vocab_size"):
        UDLM().loss(torch.nn.Identity(), *problem())


def test_the_density_vanishes_with_the_signal_even_at_an_infinite_rate() -> None:
    logits, x = torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 2]])
    zero = torch.zeros(1, 1, dtype=torch.float64)
    state = Marginal(x, x, zero, zero, Prior(5))
    value = rate_density(logits, x, state, zero, torch.full_like(zero, torch.inf), Prior(5))
    assert torch.equal(value, torch.zeros(1, 3))


def test_a_step_to_the_clean_token_knows_probabilities_that_underflow() -> None:
    x, z, prior = torch.tensor([[0]]), torch.tensor([[1]]), Prior(3)
    one, late, zero = (torch.tensor([[v]], dtype=torch.float64) for v in (1.0, 0.5, 0.0))
    logits = torch.tensor([[[-150.0, 0.0, 0.0]]], requires_grad=True)
    value = bridge_kl(logits, x, Marginal(z, x, late, zero, prior), one, late, prior)
    exact = logits.detach().double()
    wanted = bridge_kl(exact, x, Marginal(z, x, late, zero, prior), one, late, prior)
    assert 100 < float(wanted) < 160
    torch.testing.assert_close(value.double(), wanted, rtol=1e-5, atol=0)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert bool(torch.isfinite(gradient).all())
