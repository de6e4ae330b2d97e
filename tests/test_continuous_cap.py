"""The cap on attention scores that FLM's own networks have."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.nn import Architecture, Denoiser
from simplax.nn.transformer import capped_attention

SMALL = Architecture(width=16, depth=2, heads=2, cond_dim=8)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_the_cap_is_a_tanh_of_the_scaled_scores() -> None:
    q, k, v = torch.randn(3, 2, 2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = 3 * torch.tanh(q @ k.mT / 8**0.5 / 3)
    close(capped_attention(q, k, v, 3.0, None), torch.softmax(scores.float(), -1).double() @ v)
    seen = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.5
    seen = seen | torch.eye(5, dtype=torch.bool)
    hidden = torch.softmax(scores.masked_fill(~seen, -torch.inf).float(), -1).double()
    close(capped_attention(q, k, v, 3.0, seen), hidden @ v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_high_cap_changes_nothing_and_a_low_one_does(causal: bool, padded: bool) -> None:
    outputs = []
    for cap in (None, 1e4, 0.5):
        torch.manual_seed(0)
        denoiser = Denoiser(6, 5, replace(SMALL, attention_cap=cap), causal=causal)
        for parameter in denoiser.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
        attend = torch.tensor([[True] * 4 + [False]] * 2) if padded else None
        with torch.no_grad():
            outputs.append(denoiser(torch.arange(10).view(2, 5) % 6, attend=attend))
    plain, high, low = outputs
    torch.testing.assert_close(high, plain, rtol=1e-3, atol=1e-3)
    assert float((low - plain).abs().max()) > 0.01


def test_a_cap_that_is_not_positive_is_refused() -> None:
    with pytest.raises(UserError, match="attention_cap must be positive"):
        replace(SMALL, attention_cap=0.0)
