"""How a loaded model computes: its number format, compilation, and how many sequences go through it at once.

Only the network computes in another format. What is drawn is drawn by inverting sums in float64, from noise in float64,
whatever the format of the logits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import nn

from simplax.errors import UserError, nearest
from simplax.io.sharding import current
from simplax.nn.compiling import check_compiler
from simplax.train import precision

if TYPE_CHECKING:
    from simplax.pretrained.model import Model

Dtype = Literal["float32", "tf32", "bfloat16", "auto"]
BatchSize = int | Literal["auto"]
LARGEST = 256
"""Sequences beyond which a larger batch is not faster."""
PARTS = 8
"""Batches that a request is cut into if each has enough tokens, so that as many processes have work."""
TOKENS = 4096
"""Tokens that are enough to keep a device busy."""
SHARE = 0.5
"""Of the free memory that a batch may take."""


@dataclass(frozen=True)
class Numerics:
    """`tf32` lets a GPU round the factors of float32 products to 10 bits while samples or likelihoods are computed."""

    tf32: bool = False
    compiled: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        if not self.tf32:
            yield
            return
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def prepare(denoiser: nn.Module, dtype: Dtype | torch.dtype | None, compile: bool) -> Numerics:
    """Set a denoiser, which is on its device, to compute like this; None is float32."""
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    device = next(denoiser.parameters()).device
    if name not in get_args(Dtype):
        raise UserError(f"there is no dtype {name!r} for networks{nearest(name, get_args(Dtype))}")
    if name == "tf32" and device.type != "cuda":
        raise UserError("tf32 is a number format of GPUs: say float32 or bfloat16 here.")
    if name == "bfloat16" and not hasattr(denoiser, "autocast"):
        raise UserError("this network computes in float32 only: leave dtype out.")
    chosen = precision.choose("float32" if name == "tf32" else name, denoiser, device)
    precision.apply(chosen, denoiser)
    if compile:
        check_compiler(device)
        denoiser.compile()  # in place: names of weights stay as they are
    return Numerics(name == "tf32", compile)


def batch_size_for(model: Model, asked: BatchSize, num: int) -> int:
    """The batch size for `num` sequences; `auto` is the same for any number of processes, and so are its bits.

    `auto` is an eighth of the sequences but no fewer than 4,096 tokens, at most 256 sequences, and at most what half of
    the free memory holds, as a power of two.
    """
    if asked != "auto":
        if asked < 1:
            raise UserError(f"the batch size must be at least 1, got {asked}.")
        return asked
    processes = current()
    # all take the same batches, so the smallest device decides
    room = min(processes.map(lambda rank: SHARE * free_memory(model.device), processes.size))
    fits = max(int(room / bytes_per_sequence(model)), 1)
    wanted = max(math.ceil(num / PARTS), math.ceil(TOKENS / model.config.task.length))
    return min(wanted, LARGEST, 1 << (fits.bit_length() - 1))


def bytes_per_sequence(model: Model) -> int:
    """An estimate for one sequence in a step: ten arrays of its categories in float32, and two dozen of its width."""
    task, width = model.config.task, model.config.architecture.width
    return 4 * task.length * (10 * task.vocab_size + 24 * width)


def free_memory(device: torch.device) -> float:
    """Bytes that this process may still take; those of a machine are shared by the processes that run on it."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + kept)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        free = 4e9  # a system that does not say
    return free / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
