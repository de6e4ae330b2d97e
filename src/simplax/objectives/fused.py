"""Losses of a network's features that never hold all logits of a batch: projection, soft-cap, loss and gradient in one.

`surprise` and `rate_density` take what a network gave, logits or features that still await their projection
(`Hidden`), and return the same values (batch, length) either way. Only positions that count are projected at all.
In float64 both ways agree to 1e-10. In float32 the fused one keeps 1e-6 of the value and 5e-6 of the gradient from
t = .001 to .999; with bfloat16 products both are off by what rounding the logits does, about 1 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from simplax.nn import Denoiser, call
from simplax.nn.foreign import unwrapped
from simplax.objectives import bridge
from simplax.objectives._fused_function import FusedLoss, Head
from simplax.objectives._fused_rows import Bridge, CrossEntropy, Rows
from simplax.processes.simplex import Atoms, Marginal, SimplexState
from simplax.processes.uniform import Prior

SMALLEST_VOCABULARY = (
    1024  # below it the logits are small beside the trunk and one product is faster than chunks
)
_smallest: ContextVar[int | None] = ContextVar("smallest", default=SMALLEST_VOCABULARY)


@dataclass(frozen=True)
class Hidden:
    """Features (batch, length, d) and the projection to logits that they still await."""

    features: Tensor
    weight: Tensor
    bias: Tensor | None
    head: Head = field(default_factory=Head)

    def logits(self) -> Tensor:
        """All logits at once, for what has no fused form."""
        dtype, cap = self.head.dtype or self.features.dtype, self.head.cap
        bias = None if self.bias is None else self.bias.to(dtype)
        with torch.autocast(self.features.device.type, enabled=False):
            logits = nn.functional.linear(self.features.to(dtype), self.weight.to(dtype), bias)
        logits = logits.to(self.features.dtype)
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def values(self, rows: Callable[[Tensor], Rows], where: Tensor) -> Tensor:
        """The objective `rows(index)` at the positions `where` (batch, length), zero elsewhere."""
        index = where.flatten().nonzero().squeeze(-1)
        everywhere = len(index) == where.numel()
        flat = self.features.flatten(0, 1)
        chosen = flat if everywhere else flat[index]
        values = FusedLoss.apply(
            chosen, self.weight, self.bias, rows(index), self.head, torch.is_grad_enabled()
        )
        if not everywhere:
            values = torch.zeros_like(flat[:, 0]).index_put((index,), values)
        return values.view(where.shape)


Output = Tensor | Hidden


@contextmanager
def fusing(smallest_vocabulary: int | None) -> Iterator[None]:
    """Inside, losses are fused from this vocabulary size on; None never fuses them."""
    token = _smallest.set(smallest_vocabulary)
    try:
        yield
    finally:
        _smallest.reset(token)


def output(denoiser: Any, z: Any, t: Tensor | None, **context: Any) -> Output:
    """One network call: features where a fused loss pays (our own networks, large vocabularies), else float32 logits.

    Networks split over processes project by themselves: outside their own forward pass their weights are in pieces.
    """
    inner = unwrapped(denoiser) if isinstance(denoiser, nn.Module) else denoiser
    if not isinstance(inner, Denoiser) or not _pays(inner):
        return call(denoiser, z, t, **context).float()
    features = call(denoiser, z, t, project=False, **context)
    return Hidden(
        features, inner.head.weight, inner.head.bias, Head(inner.architecture.soft_cap, inner.autocast)
    )


def _pays(denoiser: Denoiser) -> bool:
    smallest, split = _smallest.get(), hasattr(denoiser.head.weight, "placements")
    return smallest is not None and denoiser.output_size >= smallest and not split


def surprise(given: Output, x: Tensor, where: Tensor, weight: Tensor | None = None) -> Tensor:
    """-weight log x_hat[x] at the positions `where`, zero elsewhere; `weight` broadcasts as (batch, 1)."""
    if isinstance(given, Tensor):
        value = torch.logsumexp(given, dim=-1) - given.gather(-1, x.unsqueeze(-1)).squeeze(-1)
        return torch.where(where, value if weight is None else weight * value, 0.0)
    factor = torch.ones(1, 1, dtype=torch.float64, device=x.device) if weight is None else weight

    def rows(index: Tensor) -> Rows:
        return CrossEntropy(x.flatten()[index], _column(factor, x, index))

    return given.values(rows, where)


def rate_density(
    given: Output, x: Tensor, state: SimplexState, alpha: Tensor, rate: Tensor, prior: Prior, where: Tensor
) -> Tensor:
    """`bridge.rate_density` at the positions `where`, zero elsewhere; fused for atoms and marginals, uniform pi."""
    if isinstance(given, Hidden) and (prior.probs is not None or not isinstance(state, Atoms | Marginal)):
        given = given.logits()
    if isinstance(given, Tensor):
        return torch.where(where, bridge.rate_density(given, x, state, alpha, rate, prior), 0.0)
    assert isinstance(state, Atoms | Marginal)
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

    return given.values(rows, where)


def _sparse(state: Atoms | Marginal) -> tuple[Tensor, Tensor, Tensor | None]:
    """w as ids and weights (batch, length, J) and the multiple of pi that it also has, if any."""
    if isinstance(state, Atoms):
        return state.ids, state.weights, None
    eta, shape = state.eta.double(), state.z.shape
    if not bool(eta.any()):
        return state.z.unsqueeze(-1), torch.ones(*shape, 1, dtype=torch.float64, device=eta.device), None
    pull = eta / (1 + eta)
    weights = torch.stack([(1 - pull).expand(shape), (pull * state.alpha.double()).expand(shape)], dim=-1)
    return torch.stack([state.z, state.x], dim=-1), weights, pull * (1 - state.alpha.double())


def _column(values: Tensor, like: Tensor, index: Tensor) -> Tensor:
    """Numbers that broadcast to `like` (batch, length) at the positions `index` of it, (n, 1) in float64."""
    return values.double().expand(like.shape).flatten()[index].unsqueeze(-1)
