"""A request for many samples, drawn a batch at a time: its seeds, and its parts put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    tokens = torch.cat([part.tokens for part in parts])
    return Samples(
        tokens,
        sum(part.nfe * len(part.tokens) for part in parts) / len(tokens),
        torch.cat([part.seeds for part in parts]),
        parts[0].times,
        _together([part.trajectory for part in parts], 1),
        sum(part.calls for part in parts),
        parts[0].num_steps,
        sum(part.block_passes * len(part.tokens) for part in parts) / len(tokens),
        _together([part.lengths for part in parts]),
        sum(part.multiply_adds * len(part.tokens) for part in parts) / len(tokens),
        _together([part.sample_calls for part in parts]),
        _together([part.decoded for part in parts], 1),
        _together([part.log_prob for part in parts]),
    )


def _together(parts: list[Tensor | None], axis: int = 0) -> Tensor | None:
    """What every part has, joined; None if nobody requested it."""
    there = [part for part in parts if part is not None]
    return torch.cat(there, dim=axis) if there else None


def in_order(drawn: Samples, rows: Tensor) -> Samples:
    """The samples of these rows, back in the requested order."""
    back = rows.argsort()

    def sorted_rows(value: Tensor | None, axis: int = 0) -> Tensor | None:
        return None if value is None else value.index_select(axis, back.to(value.device))

    return replace(
        drawn,
        tokens=drawn.tokens[back.to(drawn.tokens.device)],
        seeds=drawn.seeds[back.to(drawn.seeds.device)],
        trajectory=sorted_rows(drawn.trajectory, 1),
        lengths=sorted_rows(drawn.lengths),
        sample_calls=sorted_rows(drawn.sample_calls),
        decoded=sorted_rows(drawn.decoded, 1),
        log_prob=sorted_rows(drawn.log_prob),
    )
