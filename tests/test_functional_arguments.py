"""What callers may pass: ids or distributions, any leading shape, float or tensor times; and the errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from simplax import functional as F
from strategies import random_batch

SIZE = 5
STEP = {"alpha_s": 0.7, "alpha_t": 0.3}
TIME = {"alpha_t": 0.3, "rate": 1.5}

# name -> (function, names of its tensor arguments, its scalars, whether the result is a distribution)
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[str, ...], dict[str, float], bool]] = {
    "marginal": (F.marginal, ("x",), {"alpha_t": 0.3}, True),
    "forward_transition": (F.forward_transition, ("z_s",), STEP, True),
    "reverse_posterior": (F.reverse_posterior, ("x", "z_t"), STEP, True),
    "lifted_posterior": (F.lifted_posterior, ("x", "w_t"), STEP, True),
    "discrete_bridge_kl": (F.discrete_bridge_kl, ("x", "x_hat", "z_t"), STEP, False),
    "relaxed_bridge": (F.relaxed_bridge, ("x", "x_hat", "w_t"), STEP, False),
    "relaxed_bridge_rate": (F.relaxed_bridge_rate, ("x", "x_hat", "w_t"), TIME, False),
    "uniform_rate": (F.uniform_rate, ("x", "x_hat", "z_t"), TIME, False),
    "tight_discrete": (F.tight_discrete, ("x", "x_hat", "w_t"), STEP, False),
    "simplex_matching": (F.simplex_matching, ("x", "x_hat", "w_t"), {**STEP, "eta_s": 0.4}, False),
    "tight_joint": (F.tight_joint, ("x", "x_hat", "w_t"), {**STEP, "eta_s": 0.4}, False),
    "loose_joint": (F.loose_joint, ("x", "x_hat", "w_t"), {**STEP, "eta_s": 0.4}, False),
    "simplex_limit": (F.simplex_limit, ("x", "x_hat", "w_t"), {"alpha_t": 0.3, "eta_t": 0.4}, False),
}
every_function = pytest.mark.parametrize("name", list(FUNCTIONS))


def _tensors(name: str, *leading: int) -> dict[str, Tensor]:
    drawn = random_batch(4, *leading, size=SIZE)
    drawn["z_t"] = drawn["z_s"] = (drawn["x"] + 1) % SIZE
    return {key: drawn[key] for key in (*FUNCTIONS[name][1], "pi")}


@every_function
@pytest.mark.parametrize("leading", [(), (0,), (3,), (2, 3)])
def test_results_have_the_leading_shape_and_rows_are_independent(name: str, leading: tuple[int, ...]) -> None:
    function, _, scalars, is_distribution = FUNCTIONS[name]
    tensors = _tensors(name, *leading)
    value = function(**tensors, **scalars)
    assert value.shape == leading + ((SIZE,) if is_distribution else ())
    if leading == (2, 3):
        row = {key: v if key == "pi" else v[1, 2] for key, v in tensors.items()}
        torch.testing.assert_close(value[1, 2], function(**row, **scalars), rtol=1e-13, atol=1e-15)


@every_function
def test_ids_and_one_hot_distributions_give_the_same(name: str) -> None:
    function, _, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 2, 3)
    one_hot = torch.eye(SIZE, dtype=torch.float64)
    dense = {key: v if v.is_floating_point() else one_hot[v] for key, v in tensors.items()}
    assert torch.equal(function(**tensors, **scalars), function(**dense, **scalars))
    narrow = {key: v if v.is_floating_point() else v.to(torch.int32) for key, v in tensors.items()}
    assert torch.equal(function(**tensors, **scalars), function(**narrow, **scalars))


@every_function
def test_scalars_may_be_tensors_that_broadcast_over_positions(name: str) -> None:
    function, _, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 2, 3)
    columns = {key: torch.tensor([[v], [0.5 * v]], dtype=torch.float64) for key, v in scalars.items()}
    value = function(**tensors, **columns)
    for b, factor in enumerate((1.0, 0.5)):
        row = {key: v if key == "pi" else v[b] for key, v in tensors.items()}
        expected = function(**row, **{key: factor * v for key, v in scalars.items()})
        torch.testing.assert_close(value[b], expected, rtol=1e-13, atol=1e-15)


@every_function
def test_no_prior_means_the_uniform_one_where_the_size_is_known(name: str) -> None:
    function, names, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 2, 3)
    tensors["pi"] = torch.full((SIZE,), 1 / SIZE, dtype=torch.float64)
    value = function(**tensors, **scalars)
    tensors.pop("pi")
    if all(not tensors[key].is_floating_point() for key in names):
        with pytest.raises(ValueError, match="pass pi"):
            function(**tensors, **scalars)
    else:
        assert torch.equal(function(**tensors, **scalars), value)


@every_function
def test_bad_values_are_refused_with_a_sentence(name: str) -> None:
    function, names, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 2, 3)
    for bad in (
        torch.tensor([1.0, 0, 0, 0, 0]),
        torch.full((SIZE,), 0.3),
        torch.tensor([1.2, -0.2, 0, 0, 0]),
    ):
        with pytest.raises(ValueError, match="pi must be"):
            function(**{**tensors, "pi": bad}, **scalars)
    with pytest.raises(ValueError, match="number of categories"):
        function(**{**tensors, "pi": torch.ones(3) / 3, names[-1]: torch.ones(2, 3, SIZE) / SIZE}, **scalars)
    for key in names:
        if tensors[key].is_floating_point():
            for broken in (tensors[key] * 1.01, tensors[key] * torch.nan):
                with pytest.raises(ValueError, match=f"{key} must be non-negative and sum to one"):
                    function(**{**tensors, key: broken}, **scalars)
        else:
            for wrong in (SIZE, -1):
                with pytest.raises(ValueError, match=rf"{key} must hold ids in \[0, 4\]"):
                    function(**{**tensors, key: torch.full_like(tensors[key], wrong)}, **scalars)


@every_function
def test_times_out_of_order_are_refused(name: str) -> None:
    function, _, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 2, 3)
    bad_times = [{"alpha_t": 1.1}, {"alpha_t": -0.1}, {"alpha_t": float("nan")}]
    if "alpha_s" in scalars:
        bad_times += [{"alpha_s": 0.2}, {"alpha_s": 1.2}, {"alpha_s": float("nan")}]
        bad_times += [{"alpha_s": 0.0, "alpha_t": 0.0}]
    if name not in ("marginal", "forward_transition"):
        bad_times += [{"alpha_t": 1.0, **({"alpha_s": 1.0} if "alpha_s" in scalars else {})}]
    for bad in bad_times:
        with pytest.raises(ValueError, match="alpha"):
            function(**tensors, **{**scalars, **bad})
    for rate in (-1.0, float("nan")) if "rate" in scalars else ():
        with pytest.raises(ValueError, match="rate must not be negative"):
            function(**tensors, **{**scalars, "rate": rate})


@pytest.mark.parametrize("name", ["simplex_matching", "tight_joint", "loose_joint"])
def test_there_is_no_simplex_state_at_time_zero(name: str) -> None:
    function, _, scalars, _ = FUNCTIONS[name]
    with pytest.raises(ValueError, match="no simplex state at time 0"):
        function(**_tensors(name, 3), **{**scalars, "alpha_s": 1.0})
    # just after time 0 is fine in float64, where it differs from 0
    assert bool(function(**_tensors(name, 3), **{**scalars, "alpha_s": 1 - 1e-9}).isfinite().all())


def test_laws_of_the_simplex_state_refuse_time_zero_and_bad_concentrations() -> None:
    x, pi, w = torch.tensor([0, 1]), torch.tensor([0.2, 0.8]), torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    laws: list[Callable[..., object]] = [
        lambda alpha, eta: F.simplex_marginal(x, alpha, eta, pi),
        lambda alpha, eta: F.simplex_conditional(x, x, alpha, eta, pi),
        lambda alpha, eta: F.simplex_bridge(x, x, alpha, 0.1, eta, pi),
        lambda alpha, eta: F.simplex_bridge(x, w, alpha, 0.1, eta, pi),
        lambda alpha, eta: F.estimate_simplex_kl(x, w, w, alpha, 0.1, eta, pi, num_samples=2),
    ]
    for law in laws:
        law(0.5, 1.0)
        with pytest.raises(ValueError, match="simplex state"):
            law(1.0, 1.0)
        for eta in (0.0, -1.0, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="eta must be positive"):
                law(0.5, eta)
    with pytest.raises(ValueError, match="pass pi"):
        F.simplex_marginal(x, 0.5, 1.0)
    with pytest.raises(ValueError, match="concentration must be positive"):
        F.shifted_log_moments(torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="concentration_hat must be positive"):
        F.dirichlet_kl(torch.tensor([1.0, 1.0]), torch.tensor([-1.0, 1.0]))
    with pytest.raises(ValueError, match="at least 2"):
        F.estimate_simplex_kl(x, w, w, 0.5, 0.1, 1.0, pi, num_samples=1)


@pytest.mark.parametrize("name", ["relaxed_bridge", "relaxed_bridge_rate", "tight_discrete"])
def test_integers_are_never_read_as_a_simplex_state_or_a_prediction(name: str) -> None:
    """A one-hot matrix of integers would silently be read as ids of a longer batch."""
    function, _, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 3)
    for key in ("w_t", "x_hat"):
        with pytest.raises(ValueError, match=f"{key} must be a floating tensor"):
            function(**{**tensors, key: torch.eye(SIZE, dtype=torch.long)[tensors["x"]]}, **scalars)


@every_function
def test_checks_can_be_switched_off(name: str) -> None:
    function, _, scalars, _ = FUNCTIONS[name]
    tensors = _tensors(name, 2)
    unnormalised = {**tensors, "pi": tensors["pi"] * 1.5}
    assert function(**unnormalised, **scalars, validate=False).shape[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lifted_posterior", "relaxed_bridge", "relaxed_bridge_rate", "uniform_rate", "loose_joint"]
)
def test_functions_compile_without_graph_breaks(name: str) -> None:
    function, _, scalars, _ = FUNCTIONS[name]
    tensors = {key: v.float() if v.is_floating_point() else v for key, v in _tensors(name, 2, 3).items()}
    times = {key: torch.full((2, 1), v) for key, v in scalars.items()}
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(**tensors, **times), function(**tensors, **times))
