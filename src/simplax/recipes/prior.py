"""The prior pi of a run: the frequencies of its training tokens, or the numbers in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from simplax.config.run import RunConfig
from simplax.errors import UserError

COUNTED = 4096
"""Sequences whose tokens are counted: enough for frequencies, few enough to take seconds."""


def start_prior(denoiser: nn.Module) -> None:
    """A denoiser that keeps a prior begins with the uniform one, until the run's own is filled in or loaded."""
    place: Any = getattr(denoiser, "pi", None)
    if isinstance(place, Tensor):
        place.fill_(1.0 / len(place))


def fill_prior(config: RunConfig, denoiser: nn.Module) -> None:
    """Give a denoiser that keeps a prior the one its method names; a run that resumes loads it with its weights."""
    place: Any = getattr(denoiser, "pi", None)
    if isinstance(place, Tensor):
        pi = str(config.method.pi)  # type: ignore[attr-defined]
        probs = unigram(config) if pi == "unigram" else from_file(Path(pi), config.task.vocab_size)
        place.copy_(probs)


def unigram(config: RunConfig) -> Tensor:
    """Frequencies of the tokens of the first training sequences, given ones left out, each counted once more than seen:
    a prior must be positive everywhere.
    """
    size = config.task.vocab_size
    counts = torch.ones(size, dtype=torch.float64)
    source = config.task.train()
    for rows in torch.arange(COUNTED).split(256):
        batch = source.batch(rows)
        counts += torch.bincount(batch.tokens[batch.scored], minlength=size)[:size]
    return counts / counts.sum()


def from_file(path: Path, size: int) -> Tensor:
    """One positive number per category, a line each or an .npy array; they are divided by their sum."""
    try:
        numbers = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt(path, ndmin=1)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as a prior: set method.pi to uniform, unigram, or a file of one positive number "
            "per category."
        ) from error
    probs = torch.as_tensor(np.asarray(numbers, dtype=np.float64)).flatten()
    if probs.shape != (size,) or not bool((probs > 0).all()) or not bool(probs.isfinite().all()):
        raise UserError(f"{path} must hold {size} positive numbers, one for each category.")
    return probs / probs.sum()
