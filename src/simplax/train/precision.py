"""The number format a run computes in: a rule, so that one recipe means the same numbers on every machine of a kind."""

from __future__ import annotations

import time

import torch
from torch import nn

from simplax.errors import UserError


def matmul_rate(dtype: torch.dtype, device: torch.device, size: int = 1024, seconds: float = 0.1) -> float:
    """FLOP per second of square matrix products, the best of several."""
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

    def once() -> float:
        start = time.perf_counter()
        (a @ b).sum().item()  # reading the result waits for the device
        return time.perf_counter() - start

    once()
    best, deadline = once(), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        best = min(best, once())
    return 2.0 * size**3 / best


def choose(precision: str, denoiser: nn.Module, device: torch.device) -> str:
    """`auto` is bfloat16 on a GPU that has it, if the network can use it, and float32 anywhere else.

    It is not measured: a run would compute in different numbers on two machines. `simplax doctor` measures and advises.
    """
    able = hasattr(denoiser, "autocast")
    if precision == "bfloat16" and not able:
        raise UserError(
            "this denoiser has no attribute `autocast` to set to torch.bfloat16: train it with precision float32."
        )
    if precision != "auto":
        return precision
    return rule(device) if able else "float32"


def rule(device: torch.device) -> str:
    """What `auto` means on a device."""
    has = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if has else "float32"


def apply(precision: str, denoiser: nn.Module) -> None:
    if hasattr(denoiser, "autocast"):
        setattr(denoiser, "autocast", torch.bfloat16 if precision == "bfloat16" else None)  # noqa: B010
