"""The linear layers of blocks, whose float32 products go to oneDNN when a CPU trains.

torch hands float32 products to MKL, whose kernels are about half as fast as oneDNN's on the AMD CPU they were
measured on. Both are full float32 and differ in rounding only. Other number formats are oneDNN's already. Inference
is left as it is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEAST_PRODUCT = 2**25
"""Multiply-adds from which on a product pays for the extra work of calling it."""
ONEDNN = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


class Linear(nn.Linear):
    """`nn.Linear` with these products: same parameters, same map."""

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and _pays(input, self.weight)):
            return F.linear(input, self.weight, self.bias)
        rows: Tensor = torch.ops.simplax.linear(input.reshape(-1, self.in_features), self.weight, self.bias)
        return rows.view(*input.shape[:-1], self.out_features)


def _pays(x: Tensor, weight: Tensor) -> bool:
    return (
        ONEDNN
        and torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and x.numel() * weight.shape[0] >= LEAST_PRODUCT
    )


# operators of their own, because compilers take them as they are: inside a graph, torch's would copy their arguments
@torch.library.custom_op(
    "simplax::linear", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor"
)
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (n, i) times the transpose of weight (o, i), plus bias (o,)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


@_linear.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@torch.library.custom_op(
    "simplax::weight_gradient", mutates_args=(), schema="(Tensor gradient, Tensor x) -> Tensor"
)
def _weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """The transpose of gradient (n, o) times x (n, i).

    oneDNN is fastest with the narrower matrix first, and that one contiguous.
    """
    if x.shape[1] > gradient.shape[1]:
        return torch.ops.simplax.linear(gradient.t().contiguous(), x.t(), None)
    return torch.ops.simplax.linear(x.t().contiguous(), gradient.t(), None).t().contiguous()


@_weight_gradient.register_fake
def _(gradient: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(gradient.shape[1], x.shape[1])


def _remember(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _backward(
    ctx: torch.autograd.function.FunctionCtx, gradient: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
    of_x, of_weight, of_bias = ctx.needs_input_grad  # type: ignore[attr-defined]
    return (
        torch.ops.simplax.linear(gradient, weight.t(), None) if of_x else None,
        torch.ops.simplax.weight_gradient(gradient, x) if of_weight else None,
        gradient.sum(0) if of_bias else None,
    )


_linear.register_autograd(_backward, setup_context=_remember)
