"""The projection to logits and a loss of them in one pass, which also leaves the gradients behind.

Logits exist for one chunk of positions at a time, and become their own gradient in place. So the backward pass has
nothing left to do but to scale, provided that the gradient it is given is the same for all positions; the sum of
losses that training takes is such a case. For any other it makes one more pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from simplax.objectives._fused_rows import Rows

CHUNK_ELEMENTS = 2**25  # logits alive at once: long enough for matrix products to run at full speed
BLOCK_ELEMENTS = 2**18  # logits worked on at once on a CPU: a few temporaries of them fit its cache


@dataclass(frozen=True)
class Head:
    """How features become logits: `cap` is the soft-cap, `dtype` that of the matrix products (None: the features')."""

    cap: float | None = None
    dtype: torch.dtype | None = None
    chunk: int = CHUNK_ELEMENTS
    block: int = BLOCK_ELEMENTS


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class FusedLoss(torch.autograd.Function):
    """Values (n,) of `rows` at the logits of `features` (n, d), zero where `counted` (n,) is False."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        rows: Rows,
        head: Head,
        differentiate: bool,
        counted: Tensor | None,
    ) -> Tensor:
        needs = tuple(n and differentiate for n in ctx.needs_input_grad[:3])
        values, ctx.ready = project_and_reduce(features, weight, bias, rows, head, needs, counted)
        ctx.save_for_backward(features, weight, bias, counted)
        ctx.rows, ctx.head, ctx.needs = rows, head, needs
        return values if counted is None else torch.where(counted, values, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        ready, ctx.ready = ctx.ready, None  # handed on, so that the parameter can keep it without a copy
        common = _common(upstream)
        if ready is None or common is None:
            features, weight, bias, counted = ctx.saved_tensors
            if counted is not None:
                upstream = torch.where(counted, upstream, 0.0)
            _, ready = project_and_reduce(features, weight, bias, ctx.rows, ctx.head, ctx.needs, upstream)
        elif common is not _ONE:
            ready = tuple(None if g is None else g.mul_(common) for g in ready)
        return (*ready, None, None, None, None)


_ONE = 1.0


def _common(upstream: Tensor) -> Tensor | float | None:
    """The one number that all entries equal, or None; a device is never waited for.

    The gradient of a sum is one number expanded, which its strides tell. On a CPU the entries are looked at besides.
    """
    if upstream.numel() == 0:
        return _ONE
    if upstream.stride() == (0,):
        return upstream[0] if upstream.device.type != "cpu" or upstream[0] != 1 else _ONE
    if upstream.device.type != "cpu":
        return None
    low, high = torch.aminmax(upstream)
    if low != high:
        return None
    return _ONE if low == 1 else low


def project_and_reduce(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    rows: Rows,
    head: Head,
    needs: tuple[bool, ...],
    upstream: Tensor | None = None,
) -> tuple[Tensor, Gradients]:
    """Values, and gradients of their sum (weighted by `upstream`) by features, weight and bias where needed."""
    with torch.autocast(features.device.type, enabled=False):
        count, size = len(features), len(weight)
        dtype = head.dtype or features.dtype
        hidden, matrix = features.to(dtype), weight.to(dtype)
        statistics: list[tuple[Tensor, ...]] = []
        feature_grad = torch.empty_like(features) if needs[0] else None
        weight_grad = torch.zeros_like(weight) if needs[1] and not count else None
        bias_grad = torch.zeros_like(bias) if bias is not None and needs[2] else None
        buffer = torch.empty(_at_most(head.chunk, size, count), size, dtype=dtype, device=features.device)
        for start, stop in _spans(count, len(buffer)):
            span = slice(start, stop)
            logits = torch.mm(hidden[span], matrix.T, out=buffer[: stop - start])
            part = None if upstream is None else upstream[span]
            statistics += _reduce(logits, bias, rows[span], head, any(needs), part, bias_grad)
            if feature_grad is not None:
                feature_grad[span] = logits @ matrix
            if needs[1]:
                weight_grad = _accumulate(weight_grad, logits, hidden[span], weight.dtype)
        if not statistics:
            return features.new_empty(0), (feature_grad, weight_grad, bias_grad)
        values = rows.values(*map(torch.cat, zip(*statistics)))
        return values.to(features.dtype), (feature_grad, weight_grad, bias_grad)


def _reduce(
    logits: Tensor,
    bias: Tensor | None,
    rows: Rows,
    head: Head,
    differentiate: bool,
    upstream: Tensor | None,
    bias_grad: Tensor | None,
) -> list[tuple[Tensor, ...]]:
    """Statistics of a chunk of logits (m, K), block by block; their gradient takes the logits' place."""
    statistics = []
    scale = 1.0 if head.cap is None else 1 / head.cap
    shift = None if bias is None else bias.to(_working(logits)) * scale
    block = head.block if logits.device.type == "cpu" else logits.numel()
    for start, stop in _spans(len(logits), _at_most(block, logits.shape[1], len(logits))):
        span = slice(start, stop)
        place = logits[span]
        work = place.to(_working(logits))
        if shift is not None:
            torch.add(shift, work, alpha=scale, out=work)
        elif head.cap is not None:
            work.mul_(scale)
        capped = work if head.cap is None else work.tanh_() * head.cap
        found, grad = rows[span].evaluate(capped, differentiate)
        statistics.append(found)
        if grad is None:
            continue
        if head.cap is not None:
            grad = torch.ops.aten.tanh_backward.grad_input(grad, work, grad_input=work)
        if upstream is not None:
            grad.mul_(upstream[span].to(grad.dtype).unsqueeze(-1))
        if bias_grad is not None:
            bias_grad.add_(grad.sum(0))
        if grad is not place:
            place.copy_(grad)
    return statistics


def _working(logits: Tensor) -> torch.dtype:
    """Losses are computed in float32 at least."""
    return torch.float32 if logits.dtype.itemsize < 4 else logits.dtype


def _accumulate(total: Tensor | None, logit_grad: Tensor, hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """total + logit_grad^T hidden in `dtype`, in the place of `total` if there is one."""
    if total is None:
        return (logit_grad.T @ hidden).to(dtype)
    if total.dtype == logit_grad.dtype:
        return total.addmm_(logit_grad.T, hidden)
    return total.add_(logit_grad.T @ hidden)


def _at_most(elements: int, size: int, count: int) -> int:
    """Rows of `size` numbers that make up at most `elements`, in equal shares of `count` rows."""
    largest = max(1, elements // size)
    parts = -(-count // largest)
    return -(-count // max(parts, 1))


def _spans(count: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, count)) for start in range(0, count, max(step, 1))]
