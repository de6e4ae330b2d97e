"""Sudoku models without training: one that knows the answers, and untrained or arbitrary ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from simplax import recipes
from simplax.config.run import RunConfig
from simplax.data.sudoku import PuzzleSet, generate_range, puzzles_4x4
from simplax.pretrained.model import Model
from simplax.recipes.launch import build

FOUR = puzzles_4x4(6)[1]


def nine(number: int, clues: int = 40) -> PuzzleSet:
    """9x9 puzzles made now."""
    boards = generate_range(7_000, number, clues)
    return PuzzleSet(boards[:, 0], boards[:, 1])


class Oracle(nn.Module):
    """Recognises a puzzle by its given tokens and predicts its solution, whatever the noise."""

    def __init__(self, config: RunConfig, puzzles: PuzzleSet) -> None:
        super().__init__()
        self.vocab_size = config.task.vocab_size
        self.weight = nn.Parameter(torch.zeros(1))
        layout = config.task.board_layout  # type: ignore[attr-defined]
        solved = layout.encode(torch.from_numpy(puzzles.puzzles), torch.from_numpy(puzzles.solutions))
        self.known = {_key(t, g): t for t, g in zip(solved.tokens, solved.given)}

    def forward(self, z: Tensor, t: Tensor, *, given: Tensor) -> Tensor:
        x = torch.stack([self.known[_key(*row)] for row in zip(z, given)])
        return 30.0 * nn.functional.one_hot(x, self.vocab_size)


class Arbitrary(nn.Module):
    """Logits that are an exact integer function of each sequence alone: rounding cannot tell batches apart."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        places = torch.arange(z.shape[1])
        mixed = (z * (places + 3)).sum(-1, keepdim=True) + 7 * z + places
        return ((mixed.unsqueeze(-1) * (torch.arange(self.vocab_size) + 1)) % 11).float()


def _key(tokens: Tensor, given: Tensor) -> bytes:
    return np.where(given, tokens, -1).astype(np.int64).tobytes()


def model(name: str, denoiser: Callable[[RunConfig], nn.Module] = build) -> Model:
    """A model in miniature of a recipe, untrained unless its denoiser says otherwise."""
    config = recipes.smoke(recipes.get(name))
    return Model(denoiser(config).eval(), config, {"path": "test", "weights": "ema", "sha256": "0"})


def oracle(name: str, puzzles: PuzzleSet) -> Model:
    return model(name, lambda config: Oracle(config, puzzles))
