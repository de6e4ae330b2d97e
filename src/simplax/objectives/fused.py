"""Losses of a prediction that never hold all logits of a batch: projection, soft-cap, loss and gradient in one.

`cross_entropy` and `rate_density` take a prediction, with logits or with features that still await their projection,
and return the same values (batch, length) either way. Only positions that count are projected at all. In float64
both ways agree to 1e-10. In float32 the fused one keeps 1e-6 of the value and 5e-6 of the gradient from t = .001 to
.999; with
bfloat16 products both are off by what rounding the logits does, about 1 %.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from simplax.objectives import bridge
from simplax.objectives._fused_function import FusedLoss, Head
from simplax.objectives._fused_rows import Bridge, CrossEntropy, Rows
from simplax.processes.prediction import Prediction, Projection
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Marginal, SimplexState


def cross_entropy(prediction: Prediction, x: Tensor, where: Tensor, weight: Tensor | None = None) -> Tensor:
    """-weight log x_hat[x] at the positions `where`, zero elsewhere; `weight` broadcasts as (batch, 1)."""
    if prediction.projection is None:
        value = -prediction.log_at(x)
        return torch.where(where, value if weight is None else weight * value, 0.0)
    factor = torch.ones(1, 1, dtype=torch.float64, device=x.device) if weight is None else weight

    def rows(index: Tensor) -> Rows:
        return CrossEntropy(x.flatten()[index], _column(factor, x, index))

    return _values(prediction.projection, rows, where)


def rate_density(
    prediction: Prediction,
    x: Tensor,
    state: SimplexState,
    alpha: Tensor,
    rate: Tensor,
    prior: Prior,
    where: Tensor,
) -> Tensor:
    """`bridge.rate_density` at the positions `where`, zero elsewhere; fused for atoms and marginals, uniform pi."""
    if prediction.projection is None or prior.probs is not None or not isinstance(state, Atoms | Marginal):
        return torch.where(where, bridge.rate_density(prediction.logits, x, state, alpha, rate, prior), 0.0)
    ids, weights, base = _sparse(state)

    def rows(index: Tensor) -> Rows:
        return Bridge.of(
            prior.size,
            x.flatten()[index],
            ids.flatten(0, 1)[index],
            weights.flatten(0, 1)[index].double(),
            None if base is None else _column(base, x, index),
            _column(alpha, x, index),
            _column(rate, x, index),
        )

    return _values(prediction.projection, rows, where)


def _values(projection: Projection, rows: Callable[[Tensor], Rows], where: Tensor) -> Tensor:
    """The objective `rows(index)` at the positions `where` (batch, length), zero elsewhere.

    On a CPU only those are projected; elsewhere all are, for finding them would wait for the device.
    """
    flat = projection.features.flatten(0, 1)
    everywhere = flat.device.type != "cpu" or bool(where.all())
    if everywhere:
        index = torch.arange(len(flat), device=flat.device)
    else:
        index = where.flatten().nonzero().squeeze(-1)
    values = FusedLoss.apply(
        flat if everywhere else flat[index],
        projection.weight,
        projection.bias,
        rows(index),
        Head(projection.cap, projection.dtype),
        torch.is_grad_enabled(),
        where.flatten() if everywhere and flat.device.type != "cpu" else None,
    )
    if everywhere:
        return values.view(where.shape)
    return torch.zeros_like(flat[:, 0]).index_put((index,), values).view(where.shape)


def _sparse(state: Atoms | Marginal) -> tuple[Tensor, Tensor, Tensor | None]:
    """w as ids and weights (batch, length, J) and the multiple of pi that it also has, if any."""
    if isinstance(state, Atoms):
        return state.ids, state.weights, None
    shape = state.z.shape
    if state.eta is None:
        ones = torch.ones(*shape, 1, dtype=torch.float64, device=state.z.device)
        return state.z.unsqueeze(-1), ones, None
    eta = state.eta.double()
    pull = eta / (1 + eta)
    weights = torch.stack([(1 - pull).expand(shape), (pull * state.alpha.double()).expand(shape)], dim=-1)
    return torch.stack([state.z, state.x], dim=-1), weights, pull * (1 - state.alpha.double())


def _column(values: Tensor, like: Tensor, index: Tensor) -> Tensor:
    """Numbers that broadcast to `like` (batch, length) at the positions `index` of it, (n, 1) in float64."""
    return values.double().expand(like.shape).flatten()[index].unsqueeze(-1)
