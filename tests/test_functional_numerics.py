"""Ends of time, float32 and half types, gradients: where the formulas are right and arithmetic goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from simplax import functional as F
from simplax.functional._stable import expm1_minus
from strategies import random_batch

STEP_OBJECTIVES = [F.relaxed_bridge, F.tight_discrete]
SIMPLEX_OBJECTIVES = [F.simplex_matching, F.tight_joint, F.loose_joint]


def _arguments(size: int = 4) -> dict[str, Tensor]:
    return random_batch(size, 3, size=size)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_match_finite_differences(seed: int) -> None:
    arguments = random_batch(seed, 2, size=4)
    x, pi = arguments["x"], arguments["pi"]
    logits = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    logits.requires_grad_()
    w_logits = arguments["w_t"].log().requires_grad_()

    def through_softmax(objective: Callable[..., Tensor], *rest: float) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda a, b: objective(x, a.softmax(-1), b.softmax(-1), *rest, pi)

    for objective in (*STEP_OBJECTIVES, F.discrete_bridge_kl):
        assert torch.autograd.gradcheck(through_softmax(objective, 0.7, 0.3), (logits, w_logits))
    for objective in SIMPLEX_OBJECTIVES:
        assert torch.autograd.gradcheck(through_softmax(objective, 0.7, 0.3, 0.5), (logits, w_logits))
    for objective in (F.relaxed_bridge_rate, F.uniform_rate):
        assert torch.autograd.gradcheck(through_softmax(objective, 0.3, 1.5), (logits, w_logits))
    assert torch.autograd.gradcheck(through_softmax(F.simplex_limit, 0.3, 0.5), (logits, w_logits))
    literal = lambda a: F.relaxed_bridge_rate(x, a.softmax(-1), arguments["w_t"], 0.3, 1.5, pi, False)  # noqa: E731
    assert torch.autograd.gradcheck(literal, (logits,))


def test_gradients_reach_the_time_arguments() -> None:
    arguments = _arguments()
    times = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, 0.3, 0.5)]
    assert torch.autograd.gradcheck(
        lambda s, t, e: F.loose_joint(**arguments, alpha_s=s, alpha_t=t, eta_s=e), times
    )


@pytest.mark.parametrize("alpha_s, alpha_t", [(1.0, 0.3), (0.6, 0.0), (1.0, 0.0)])
@pytest.mark.parametrize("one_hot", [False, True])
def test_first_and_last_steps_have_finite_values_and_gradients(
    alpha_s: float, alpha_t: float, one_hot: bool
) -> None:
    size = 4
    arguments = _arguments(size)
    vertices = torch.eye(size, dtype=torch.float64)
    w = vertices[[0, 2, 3]] if one_hot else arguments["w_t"]
    # a prediction with exact zeros, never at the clean token
    x_hat = (arguments["x_hat"] * (1 - vertices[(arguments["x"] + 1) % size])).requires_grad_()
    hat = x_hat / x_hat.sum(-1, keepdim=True)
    w = w.clone().requires_grad_()
    for objective in (*STEP_OBJECTIVES, F.discrete_bridge_kl):
        value = objective(arguments["x"], hat, w, alpha_s, alpha_t, arguments["pi"])
        gradients = torch.autograd.grad(value.sum(), (x_hat, w), retain_graph=True)
        assert bool(value.isfinite().all())
        assert all(bool(g.isfinite().all()) for g in gradients)


def test_the_last_step_to_time_zero_is_the_cross_entropy() -> None:
    """At s = 0 the posterior is x itself, so every anchor costs -log of the model's posterior of x."""
    arguments = _arguments()
    x, x_hat, w, pi = (arguments[name] for name in ("x", "x_hat", "w_t", "pi"))
    costs = []
    for j in range(4):
        law = F.reverse_posterior(x_hat, torch.full((3,), j), 1.0, 0.3, pi)
        costs.append(-law.gather(-1, x[:, None]).squeeze(-1).log())
    expected = (w * torch.stack(costs, -1)).sum(-1)
    torch.testing.assert_close(F.relaxed_bridge(**arguments, alpha_s=1.0, alpha_t=0.3), expected)


def test_an_impossible_clean_token_costs_infinity() -> None:
    arguments = {**_arguments(), "x_hat": torch.eye(4, dtype=torch.float64)[(_arguments()["x"] + 1) % 4]}
    for alpha_t in (0.0, 0.3):
        value = F.relaxed_bridge(**arguments, alpha_s=1.0, alpha_t=alpha_t)
        assert bool((value == torch.inf).all())


def test_rate_at_time_one_is_zero_even_where_lambda_is_infinite() -> None:
    arguments = _arguments()
    x_hat = arguments.pop("x_hat").requires_grad_()
    value = F.relaxed_bridge_rate(x_hat=x_hat, alpha_t=0.0, rate=torch.inf, **arguments)
    assert torch.equal(value, torch.zeros(3, dtype=torch.float64))
    assert torch.equal(torch.autograd.grad(value.sum(), x_hat)[0], torch.zeros(3, 4, dtype=torch.float64))


def _float32(arguments: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """float32 arguments, and the same numbers in float64."""
    single = {name: v.float() if v.is_floating_point() else v for name, v in arguments.items()}
    return single, {name: v.double() if v.is_floating_point() else v for name, v in single.items()}


@pytest.mark.parametrize("size", [3, 12, 1000])
@pytest.mark.parametrize("alpha", [1e-6, 1e-4, 1e-2, 0.5])
def test_restored_rate_is_accurate_in_float32_near_time_one(size: int, alpha: float) -> None:
    single, double = _float32(random_batch(size, 16, size=size))
    value = F.relaxed_bridge_rate(**single, alpha_t=alpha, rate=1 / alpha)
    # the same alpha in both, so that only the arithmetic differs
    exact = torch.tensor(alpha, dtype=torch.float32).double()
    reference = F.relaxed_bridge_rate(**double, alpha_t=exact, rate=torch.tensor(1 / alpha).double())
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), reference, rtol=1e-5, atol=0)


@pytest.mark.parametrize("step", [1e-1, 1e-3, 1e-5])
def test_relaxed_bridge_is_accurate_in_float32_over_short_steps(step: float) -> None:
    single, double = _float32(random_batch(1, 16, size=12))
    alpha_t = torch.tensor(0.4)
    alpha_s = alpha_t + step
    value = F.relaxed_bridge(**single, alpha_s=alpha_s, alpha_t=alpha_t)
    reference = F.relaxed_bridge(**double, alpha_s=alpha_s.double(), alpha_t=alpha_t.double())
    torch.testing.assert_close(value.double(), reference, rtol=1e-5, atol=0)


def test_divergence_terms_do_not_overflow_in_float32() -> None:
    """p near the smallest float32: q / p overflows, the divergence does not."""
    x = torch.tensor([1.0, 1e-42])
    x_hat = torch.tensor([0.5, 0.5])
    value = F.discrete_bridge_kl(x, x_hat, torch.tensor(0), 1.0, 0.3)
    reference = F.discrete_bridge_kl(x.double(), x_hat.double(), torch.tensor(0), 1.0, 0.3)
    torch.testing.assert_close(value.double(), reference, rtol=1e-5, atol=0)


def test_exponential_remainder_keeps_its_digits_on_both_sides_of_its_switch() -> None:
    x = np.concatenate([np.linspace(-1.5, 1.5, 601), [-30.0, -1e-2, 1e-2, 30.0]])
    exact = np.longdouble(x)
    expected = torch.tensor((np.expm1(exact) - exact).astype(np.float64))
    torch.testing.assert_close(expm1_minus(torch.tensor(x)), expected, rtol=4e-15, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    arguments = _arguments()
    half = {name: v.to(dtype) if v.is_floating_point() else v for name, v in arguments.items()}
    single = {name: v.float() if v.is_floating_point() else v for name, v in half.items()}
    times = {"alpha_s": 0.6, "alpha_t": 0.3}
    pairs = [(F.relaxed_bridge, times), (F.tight_joint, {**times, "eta_s": 0.5})]
    for objective, more in pairs:
        value = objective(**half, **more)
        assert value.dtype == torch.float32
        assert torch.equal(value, objective(**single, **more, validate=False))
    assert F.uniform_rate(half["x"], half["x_hat"], half["x"], 0.3, 1.0, half["pi"]).dtype == torch.float32
    assert F.dirichlet_kl(half["x_hat"], half["w_t"]).dtype == torch.float32
    assert F.simplex_marginal(half["x"], 0.3, 0.5, half["pi"]).sample().dtype == torch.float32


def test_dirichlet_terms_are_accurate_in_float32_at_the_papers_concentration() -> None:
    single, double = _float32(random_batch(2, 4, size=2000))
    value = F.simplex_matching(**single, alpha_s=0.6, alpha_t=0.3, eta_s=0.01)
    exact = [torch.tensor(v, dtype=torch.float32).double() for v in (0.6, 0.3, 0.01)]
    reference = F.simplex_matching(**double, alpha_s=exact[0], alpha_t=exact[1], eta_s=exact[2])
    torch.testing.assert_close(value.double(), reference, rtol=1e-4, atol=0)


@pytest.mark.parametrize("alpha", [0.999, 1 - 1e-6])
def test_what_is_left_of_one_keeps_its_digits_in_float32(alpha: float) -> None:
    arguments = _arguments()
    arguments["z_t"] = (arguments["x"] + 1) % 4
    rows = {name: arguments[name] for name in ("x", "x_hat", "z_t")}
    exact = F.uniform_rate(**rows, alpha_t=alpha, rate=2.0)
    single = F.uniform_rate(**{**rows, "x_hat": rows["x_hat"].float()}, alpha_t=alpha, rate=2.0)
    torch.testing.assert_close(single.double(), exact, rtol=1e-5, atol=0)


def test_a_short_step_keeps_its_digits_in_float32() -> None:
    rows = {name: value for name, value in _arguments().items() if name in ("x", "x_hat", "w_t")}
    step = {"alpha_s": 0.5, "alpha_t": 0.4999999}
    single = {name: value.float() if value.is_floating_point() else value for name, value in rows.items()}
    value = F.relaxed_bridge(**single, **step).double()
    torch.testing.assert_close(value, F.relaxed_bridge(**rows, **step), rtol=1e-4, atol=0)


def test_a_float32_softmax_over_a_large_vocabulary_is_a_law_in_float64() -> None:
    logits = 3 * torch.randn(4, 50_257, generator=torch.Generator().manual_seed(0))
    x_hat = torch.softmax(logits, dim=-1).double()
    torch.testing.assert_close(F.marginal(x_hat, 0.5), 0.5 * x_hat + 0.5 / 50_257, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_masked_functions_compute_half_types_in_float32(dtype: torch.dtype) -> None:
    x, z = torch.tensor([2, 0]), torch.tensor([4, 4])
    x_hat = torch.tensor([[0.125, 0.125, 0.5, 0.25], [0.25, 0.25, 0.25, 0.25]])
    half = x_hat.to(dtype)
    for name, arguments in {
        "rate": lambda law: F.masked_rate(x, law, z, 0.999, 1.5, 4),
        "posterior": lambda law: F.absorbing_posterior(law, z, 0.9995, 0.999, 4),
        "subs": lambda law: F.subs_log_probs(8 * law, z, 4),
    }.items():
        value = arguments(half)
        assert value.dtype == torch.float32, name
        torch.testing.assert_close(value, arguments(x_hat))


def test_the_masked_density_says_where_it_has_no_value() -> None:
    x, z, x_hat = torch.tensor([0]), torch.tensor([2]), torch.tensor([[0.5, 0.5]])
    for alpha, rate in ((1.0, 1.0), (1.5, 1.0), (0.5, -1.0)):
        with pytest.raises(ValueError, match="0 <= alpha_t < 1"):
            F.masked_rate(x, x_hat, z, alpha, rate, 2)
    with pytest.raises(ValueError, match="take a time below 1"):
        F.masked_rate(x, x_hat, z, 0.0, float("inf"), 2)
    assert float(F.masked_rate(x, x_hat, z, 0.0, 5.0, 2)) == 0


def test_a_nucleus_of_everything_leaves_nothing_out() -> None:
    probs = torch.softmax(3 * torch.randn(50_257, generator=torch.Generator().manual_seed(1)), dim=-1)
    assert bool((F.nucleus(probs, 1.0) > 0).all())
