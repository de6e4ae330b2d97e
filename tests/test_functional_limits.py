"""Short steps: which objectives vanish, at which order, and what is left (section 3.2, appendices C and E)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from simplax import functional as F
from strategies import random_batch

STEPS = [2.0**-n for n in range(7, 15)]
ALPHA, ETA = 0.45, 0.7
SIZES = pytest.mark.parametrize("size", [2, 3, 6])


def _slopes(values: Tensor) -> Tensor:
    """Slope of log value against log step, one per column, over a step-by-case table."""
    log_step = np.log(STEPS)
    return torch.tensor(np.polyfit(log_step, values.log().numpy(), 1)[0])


def _over_steps(objective, arguments: dict[str, Tensor], **more: float) -> Tensor:  # type: ignore[no-untyped-def]
    """The objective over the steps of the linear schedule alpha = 1 - t, all ending in the same t."""
    rows = [objective(alpha_s=ALPHA + step, alpha_t=ALPHA, **arguments, **more) for step in STEPS]
    return torch.stack(rows)


def _at_vertices(arguments: dict[str, Tensor], size: int) -> dict[str, Tensor]:
    anchors = torch.arange(arguments["x"].numel()).reshape(arguments["x"].shape) % size
    return {**arguments, "w_t": torch.eye(size, dtype=torch.float64)[anchors]}


@SIZES
def test_tight_discrete_is_second_order_in_the_interior(size: int) -> None:
    values = _over_steps(F.tight_discrete, random_batch(size, 20, size=size, spread=0.7))
    torch.testing.assert_close(
        _slopes(values), torch.full((20,), 2.0, dtype=torch.float64), rtol=0, atol=0.05
    )


@SIZES
def test_tight_discrete_is_first_order_at_a_vertex_where_it_is_the_relaxed_bridge(size: int) -> None:
    arguments = _at_vertices(random_batch(size, 20, size=size, spread=0.7), size)
    tight = _over_steps(F.tight_discrete, arguments)
    torch.testing.assert_close(_slopes(tight), torch.ones(20, dtype=torch.float64), rtol=0, atol=0.05)
    torch.testing.assert_close(tight, _over_steps(F.relaxed_bridge, arguments), rtol=1e-10, atol=1e-14)


@SIZES
@pytest.mark.parametrize("vertex", [False, True])
def test_relaxed_bridge_is_first_order_with_the_rate_as_coefficient(size: int, vertex: bool) -> None:
    arguments = random_batch(size, 20, size=size, spread=0.7)
    arguments = _at_vertices(arguments, size) if vertex else arguments
    values = _over_steps(F.relaxed_bridge, arguments)
    torch.testing.assert_close(_slopes(values), torch.ones(20, dtype=torch.float64), rtol=0, atol=0.05)
    per_time = values / torch.tensor(STEPS, dtype=torch.float64)[:, None]
    extrapolated = 2 * per_time[-1] - per_time[-2]  # Richardson: the next order is Delta^2
    rate = F.relaxed_bridge_rate(alpha_t=ALPHA, rate=1 / ALPHA, **arguments)
    torch.testing.assert_close(extrapolated, rate, rtol=1e-6, atol=0)
    error = (per_time - rate).abs()
    torch.testing.assert_close(_slopes(error), torch.ones(20, dtype=torch.float64), rtol=0, atol=0.2)


@SIZES
def test_the_papers_rate_has_the_right_gradient(size: int) -> None:
    """The literal expression drops constants only: same gradient as the limit of the finite-step objective."""
    arguments = random_batch(size, 20, size=size, spread=0.7)
    x_hat = arguments.pop("x_hat").requires_grad_()
    step = 1e-6
    bridge = F.relaxed_bridge(x_hat=x_hat, alpha_s=ALPHA + step, alpha_t=ALPHA, validate=False, **arguments)
    limit = torch.autograd.grad((bridge / step).sum(), x_hat)[0]
    for restore in (False, True):
        density = F.relaxed_bridge_rate(
            x_hat=x_hat, alpha_t=ALPHA, rate=1 / ALPHA, restore_constants=restore, **arguments
        )
        gradient = torch.autograd.grad(density.sum(), x_hat)[0]
        # gradients live on the simplex: compare them up to a constant over the categories
        centred = [g - g.mean(-1, keepdim=True) for g in (gradient, limit)]
        torch.testing.assert_close(centred[0], centred[1], rtol=1e-4, atol=1e-4)


@SIZES
@pytest.mark.parametrize("objective", [F.simplex_matching, F.tight_joint, F.loose_joint])
def test_objectives_with_a_simplex_target_keep_the_simplex_limit(objective, size: int) -> None:  # type: ignore[no-untyped-def]
    arguments = random_batch(size, 20, size=size, spread=0.7)
    limit = F.simplex_limit(alpha_t=ALPHA, eta_t=ETA, **arguments)
    assert bool((limit > 1e-4).all())
    error = (_over_steps(objective, arguments, eta_s=ETA) - limit).abs()
    assert bool((error[-1] < 1e-3 * (1 + limit)).all())
    torch.testing.assert_close(
        _slopes(error).median(), torch.tensor(1.0, dtype=torch.float64), rtol=0, atol=0.1
    )


@SIZES
def test_lifted_posterior_moves_along_its_first_order_drift(size: int) -> None:
    arguments = random_batch(size, 20, size=size, spread=0.7)
    w, pi = arguments["w_t"], arguments["pi"]
    for clean in (arguments["x"], arguments["x_hat"]):
        p = F.marginal(clean, ALPHA, pi)
        drift = ((w * pi / p).sum(-1, keepdim=True) * p - pi * w / p) / ALPHA
        torch.testing.assert_close(drift.sum(-1), torch.zeros(20, dtype=torch.float64), rtol=0, atol=1e-12)
        moved = [F.lifted_posterior(clean, w, ALPHA + step, ALPHA, pi) - w for step in (2e-5, 1e-5)]
        torch.testing.assert_close(2 * moved[1] / 1e-5 - moved[0] / 2e-5, drift, rtol=1e-6, atol=1e-7)


def test_a_token_is_redrawn_at_the_rate() -> None:
    """1 - alpha_t / alpha_s over the length of a short step is lambda(t)."""
    pi, step = torch.tensor([0.25, 0.75], dtype=torch.float64), 1e-6
    law = F.forward_transition(torch.tensor(0), ALPHA + step, ALPHA, pi)
    torch.testing.assert_close(
        law[1] / pi[1] / step, torch.tensor(1 / ALPHA, dtype=torch.float64), rtol=1e-5, atol=0
    )


def test_marginals_and_their_logarithms_drift_towards_the_clean_token() -> None:
    arguments = random_batch(0, 20, size=5)
    pi, rate, step = arguments["pi"], 1 / ALPHA, 1e-5
    for clean in (arguments["x"], arguments["x_hat"]):
        now = F.marginal(clean, ALPHA, pi)
        before, after = (F.marginal(clean, ALPHA + sign * step, pi) for sign in (1, -1))
        torch.testing.assert_close((after - before) / (2 * step), -rate * (now - pi), rtol=1e-7, atol=1e-9)
        slope = (after.log() - before.log()) / (2 * step)
        torch.testing.assert_close(slope, -rate * (1 - pi / now), rtol=1e-6, atol=1e-6)
