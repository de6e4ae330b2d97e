"""Linear layers of blocks: the products of a training step are those of `nn.Linear`, whatever makes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplax.nn import linear
from simplax.nn.linear import Linear

needs_onednn = pytest.mark.skipif(not linear.ONEDNN, reason="float32 products go to one library here")


def layer_and_input(inputs: int, outputs: int, bias: bool) -> tuple[Linear, Tensor]:
    torch.manual_seed(0)
    return Linear(inputs, outputs, bias), torch.randn(3, 40, inputs, requires_grad=True)


def results(call: Callable[[Tensor], Tensor], layer: Linear, x: Tensor) -> list[Tensor]:
    y = call(x)
    wanted = [x, *layer.parameters()]
    return [y, *torch.autograd.grad((y * torch.sin(torch.arange(y.numel())).view_as(y)).sum(), wanted)]


@needs_onednn
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("inputs, outputs", [(8, 24), (24, 8), (8, 8)])
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradient_are_those_of_the_definition(
    inputs: int, outputs: int, bias: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "LEAST_PRODUCT", 1)
    layer, x = layer_and_input(inputs, outputs, bias)
    call = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
    exact = layer_and_input(inputs, outputs, bias)[0].double()
    expected = results(
        lambda u: F.linear(u, exact.weight, exact.bias), exact, x.detach().double().requires_grad_()
    )
    for ours, theirs in zip(results(call, layer, x), expected, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-5, atol=1e-5)


@needs_onednn
def test_operators_obey_the_rules_of_torch() -> None:
    layer, x = layer_and_input(8, 24, True)
    rows = x.detach().reshape(-1, 8).requires_grad_()
    torch.library.opcheck(torch.ops.simplax.linear.default, (rows, layer.weight, layer.bias))
    gradient = torch.randn(len(rows), 24)
    torch.library.opcheck(torch.ops.simplax.weight_gradient.default, (gradient, rows.detach()))


@needs_onednn
@pytest.mark.parametrize("frozen", ["input", "weight"])
def test_only_what_is_asked_for_gets_a_gradient(frozen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "LEAST_PRODUCT", 1)
    layer, x = layer_and_input(8, 24, False)
    (x if frozen == "input" else layer.weight).requires_grad_(False)
    layer(x).sum().backward()
    assert (x.grad is None) == (frozen == "input")
    assert (layer.weight.grad is None) == (frozen == "weight")


def test_without_gradients_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "LEAST_PRODUCT", 1)
    layer, x = layer_and_input(8, 24, True)
    with torch.no_grad():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    assert isinstance(layer, nn.Linear) and list(layer.state_dict()) == ["weight", "bias"]
