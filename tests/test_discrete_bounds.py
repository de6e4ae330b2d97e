"""On the toy with its exact network the bounds equal the entropy, a wrong network's exceed it, gradients vanish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import toy
from simplax import functional as F
from simplax.methods import MDLM, UDLM, Curriculum, Duo, DuoBase, HasLikelihood
from simplax.random import Keys
from simplax.schedules import Linear, LogLinear
from simplax.times import TimeLaw, stratified
from simplax.typing import Batch, StepContext

X = toy.states()
DATA = toy.JOINT.flatten()


def expected_density(kind: str, logits: Tensor, alpha: float, rate: float) -> Tensor:
    """Mean over data and noise of the density, summed over both tokens, for a table of logits over all states z."""
    size = toy.K if kind == "uniform" else toy.K + 1
    z = toy.states(size)
    pi = torch.full((toy.K,), 1 / toy.K, dtype=torch.float64)
    noise = alpha * torch.eye(toy.K, dtype=torch.float64) + (1 - alpha) * pi
    if kind == "masked":
        noise = torch.cat([alpha * torch.eye(toy.K), torch.full((toy.K, 1), 1 - alpha)], 1).double()
    weight = DATA[:, None] * noise[X[:, 0]][:, z[:, 0]] * noise[X[:, 1]][:, z[:, 1]]  # (x, z)
    x, z_all = X[:, None].expand(-1, len(z), -1), z.expand(len(X), -1, -1)
    x_hat = logits.softmax(-1).expand(len(X), -1, -1, -1)
    if kind == "masked":
        value = F.masked_rate(x, x_hat, z_all, alpha, rate, toy.MASK)
    else:
        value = F.uniform_rate(x, x_hat, z_all, alpha, rate)
    return (weight * value.sum(-1)).sum()


def integral(function: Callable[[float], float], nodes: int = 120) -> float:
    """Over t in [0, 1], by Gauss and Legendre in u with t = u^2 (3 - 2u), which tames the logarithm at both ends."""
    u, w = np.polynomial.legendre.leggauss(nodes)
    u, w = 0.5 * (u + 1), 0.5 * w
    return sum(wi * 6 * ui * (1 - ui) * function(ui * ui * (3 - 2 * ui)) for ui, wi in zip(u, w))


def bound(kind: str, denoiser: Any) -> float:
    """The whole bound under alpha = 1 - t, where neither end adds anything."""
    z = toy.states(toy.K if kind == "uniform" else toy.K + 1)

    def at(t: float) -> float:
        logits = denoiser(z, torch.full((len(z),), t, dtype=torch.float64))
        return float(expected_density(kind, logits, 1 - t, 1 / (1 - t)))

    return integral(at)


KINDS = {"uniform": toy.Uniform(Linear()), "masked": toy.Masked()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_network_attains_the_entropy(kind: str) -> None:
    assert bound(kind, KINDS[kind]) == pytest.approx(toy.ENTROPY, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", [-0.3, 0.1, 1.0])
def test_other_networks_exceed_it(kind: str, amount: float) -> None:
    assert bound(kind, toy.perturbed(KINDS[kind], amount)) > toy.ENTROPY + 1e-3 * amount**2


def test_the_posterior_mean_is_not_the_optimum_of_the_uniform_bound() -> None:
    assert bound("uniform", toy.Uniform(Linear(), leave_one_out=False)) > toy.ENTROPY + 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [0.05, 0.5, 0.95])
def test_gradients_vanish_at_the_optimum_and_only_there(kind: str, t: float) -> None:
    denoiser: Any = KINDS[kind]
    z = toy.states(toy.K if kind == "uniform" else toy.K + 1)
    times = torch.full((len(z),), t, dtype=torch.float64)

    def gradient(network: Any) -> float:
        logits = network(z, times).requires_grad_()
        expected_density(kind, logits, 1 - t, 1 / (1 - t)).backward()
        assert logits.grad is not None
        return float(logits.grad.abs().max())

    assert gradient(denoiser) < 1e-12
    assert gradient(toy.perturbed(denoiser, 0.1)) > 1e-4


def test_duo_curriculum_is_the_same_bound_over_its_range_of_noise() -> None:
    """In t or in gamma, the integral of the density between two alphas is the same number."""
    low, high = F.duo_gamma_range(toy.K)
    z = toy.states()
    linear = toy.Uniform(Linear())

    def at_gamma(t: float) -> float:
        gamma = low + (high - low) * t
        alpha = float(F.duo_alpha(gamma, toy.K))
        slope = (high - low) * float(F.duo_alpha_derivative(gamma, toy.K))
        logits = linear(z, torch.full((len(z),), 1 - alpha, dtype=torch.float64))
        return float(expected_density("uniform", logits, alpha, -slope / alpha))

    first, last = (float(F.duo_alpha(g, toy.K)) for g in (low, high))

    def at_alpha(t: float) -> float:
        alpha = first + (last - first) * t
        logits = linear(z, torch.full((len(z),), 1 - alpha, dtype=torch.float64))
        return float(expected_density("uniform", logits, alpha, (first - last) / alpha))

    assert integral(at_gamma, 60) == pytest.approx(integral(at_alpha, 60), abs=1e-9)


COUNT = 60_000


def monte_carlo(method: Any, denoiser: Any, term: str) -> tuple[float, float]:
    """Mean and standard error over data, times and noise, in nats per sequence."""
    context = StepContext(Keys.from_seeds(torch.arange(COUNT)), stratified(COUNT, 0, 0), step=0)
    batch = Batch.of(toy.data(COUNT))
    if term == "bound":
        parts = [
            getattr(method, name)(denoiser, batch, context).per_token for name in ("nll", "boundary_terms")
        ]
        values = sum(parts[1:], parts[0]).double().sum(-1)
    else:
        values = getattr(method, term)(denoiser, batch, context).per_token.double().sum(-1)
    return float(values.mean()), float(values.std()) / COUNT**0.5


METHODS: dict[str, tuple[HasLikelihood, Any]] = {
    "udlm": (UDLM(), toy.Uniform()),
    "duo": (Duo(), toy.Uniform()),
    "duo-base": (DuoBase(), toy.Uniform()),
    "mdlm": (MDLM(), toy.Masked()),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_estimate_the_entropy_with_the_exact_network(name: str) -> None:
    method, denoiser = METHODS[name]
    mean, error = monte_carlo(method, denoiser, "bound")
    assert abs(mean - toy.ENTROPY) < 5 * error + 1e-3
    wrong, error = monte_carlo(method, toy.perturbed(denoiser, 1.0), "bound")
    assert wrong > toy.ENTROPY + 5 * error


@pytest.mark.parametrize("name", METHODS)
def test_boundary_terms_make_it_a_bound_wherever_the_times_begin_and_end(name: str) -> None:
    """Over half of the times the integral alone falls far below the entropy; with its boundary terms it never does."""
    method, denoiser = METHODS[name]
    short = type(method)(times=TimeLaw(0.3, 0.8))  # type: ignore[call-arg]
    inner, _ = monte_carlo(short, denoiser, "nll")
    assert inner < toy.ENTROPY - 0.2
    mean, error = monte_carlo(short, denoiser, "bound")
    assert mean > toy.ENTROPY - 5 * error
    assert mean < toy.ENTROPY + 0.5


def test_masked_loss_weightings() -> None:
    """Dropping w(t) = 1/t leaves the mean number of masked tokens' surprises."""
    uninformed = lambda z, t: torch.zeros(*z.shape, toy.K)  # noqa: E731
    network = torch.nn.Module()
    network.vocab_size, network.forward = toy.K, uninformed  # type: ignore[assignment]
    plain, _ = monte_carlo(MDLM(weighting="low_var"), network, "loss")
    weighted, error = monte_carlo(MDLM(), network, "loss")
    log_k = float(np.log(toy.K))
    assert plain == pytest.approx(toy.L * log_k * 0.999 * 0.5005, rel=0.02)
    assert abs(weighted - toy.L * log_k * 0.999) < 5 * error


@pytest.mark.parametrize("sparse", [None, 1, 2])
def test_duo_curriculum_loss_at_zero_temperature_is_the_density_at_alpha_of_gamma(sparse: int | None) -> None:
    """With a cold softmax the network reads the arg-max, so its exact value is known by enumeration."""
    low, high = -1.0, 1.0
    curriculum = Curriculum(end=10, gammas=(low, high), log10_temperature=(-9.0, -9.0), top_k=sparse)
    method = Duo(curriculum=curriculum, times=TimeLaw(0.0, 1.0))
    schedule = LogLinear()
    exact = toy.perturbed(toy.Uniform(schedule), 0.3)

    class ReadsSoft:
        vocab_size = toy.K

        def __call__(self, w: Any, t: Tensor) -> Tensor:
            dense = w if isinstance(w, Tensor) else w.dense(toy.K).w
            return exact(dense.argmax(-1), t)

    mean, error = monte_carlo(method, ReadsSoft(), "loss")
    z = toy.states()

    def at(t: float) -> float:
        gamma = low + (high - low) * t
        alpha = F.duo_alpha(gamma, toy.K)
        rate = -(high - low) * F.duo_alpha_derivative(gamma, toy.K) / alpha
        logits = exact(z, schedule.inverse(alpha).expand(len(z)))
        return float(expected_density("uniform", logits, float(alpha), float(rate)))

    assert abs(mean - integral(at, 40)) < 5 * error
    after = StepContext(Keys.from_seeds([1]), torch.tensor([0.5], dtype=torch.float64), step=11)
    batch = Batch.of(X[:1])
    same = UDLM(times=method.times).loss(exact, batch, after).per_token
    assert torch.equal(method.loss(exact, batch, after).per_token, same)
    early = replace(after, step=0)
    assert not torch.equal(method.loss(ReadsSoft(), batch, early).per_token, same)
    assert torch.equal(method.loss(exact, batch, replace(early, training=False)).per_token, same)


def test_finite_steps_tend_to_the_continuous_density() -> None:
    keys, batch = Keys.from_seeds(torch.arange(500)), Batch.of(toy.data(500))
    t = (torch.arange(500) % 36 + 10).double() / 50  # times of all three chains
    limit = UDLM(times=TimeLaw(0.0, 1.0)).loss(toy.Uniform(), batch, StepContext(keys, t)).per_token
    gaps = []
    for n in (50, 100, 200):
        within = StepContext(keys, t - 0.5 / n)
        step = UDLM(num_steps=n).loss(toy.Uniform(), batch, within).per_token
        gaps.append(float((step - limit).abs().mean()))
    assert gaps[0] > 1.8 * gaps[1] > 3.2 * gaps[2] > 0
