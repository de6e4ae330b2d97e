"""A request for many samples, drawn a batch at a time: its seeds, and its parts put together again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.samplers.loop import Samples


def seeds_for(seeds: Sequence[int] | Tensor | int | None, num: int) -> Tensor:
    """One seed per sample: those given, consecutive ones from the first, or fresh ones."""
    if seeds is None:
        return torch.randint(0, 2**62, (num,))
    if isinstance(seeds, int) and not -(2**63) <= seeds < 2**63 - num:
        raise UserError(f"seeds must fit 64 bits: {num} consecutive ones from {seeds} do not.")
    values = (
        torch.arange(seeds, seeds + num)
        if isinstance(seeds, int)
        else torch.as_tensor(seeds, dtype=torch.int64)
    )
    if values.shape != (num,):
        raise UserError(f"give one seed per sample: {num} samples but {values.numel()} seeds.")
    return values


def join(parts: list[Samples]) -> Samples:
    if len(parts) == 1:
        return parts[0]
    paths = [part.trajectory for part in parts if part.trajectory is not None]
    tokens = torch.cat([part.tokens for part in parts])
    return Samples(
        tokens,
        sum(part.nfe * len(part.tokens) for part in parts) / len(tokens),
        torch.cat([part.seeds for part in parts]),
        parts[0].times,
        torch.cat(paths, dim=1) if paths else None,
        sum(part.calls for part in parts),
        parts[0].num_steps,
        sum(part.block_passes * len(part.tokens) for part in parts) / len(tokens),
        None
        if parts[0].lengths is None
        else torch.cat([part.lengths for part in parts if part.lengths is not None]),
        sum(part.multiply_adds * len(part.tokens) for part in parts) / len(tokens),
    )
