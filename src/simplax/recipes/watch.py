"""What a run records while it trains: samples in its directory, and its accuracy on puzzles it was not trained on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from simplax.config.run import RunConfig
from simplax.errors import UserError
from simplax.pretrained.model import Model
from simplax.train.hooks import TextHook
from simplax.train.metrics import truncate
from simplax.typing import Batch

SAMPLES = "samples.jsonl"
ANSWERED = 64  # puzzles per validation: enough to see a run turn, few enough to cost seconds
DRAWN = 4


class KeepSamples:
    """Every `run.sample_every` steps a few samples, decoded, one JSON object per line; the same seeds each time.

    Where the data have given positions (clues), those of the first validation sequences are clamped. `hooks` that take
    texts receive the samples too.
    """

    def __init__(
        self, config: RunConfig, directory: Path, num: int = DRAWN, hooks: Sequence[object] = ()
    ) -> None:
        self.config, self.path, self.num = config, directory / SAMPLES, num
        self.readers = [hook for hook in hooks if isinstance(hook, TextHook)]
        self.started = False

    def sample(self, step: int, denoiser: nn.Module) -> None:
        # every process draws, because a sharded network needs them all; the first one writes
        rows = draw(Model(denoiser, self.config), self.num)
        if os.environ.get("RANK", "0") != "0":
            return
        try:
            if not self.started:
                truncate(self.path, step - 1)  # what a run that was killed wrote after its last checkpoint
                self.started = True
            with open(self.path, "a", encoding="utf-8") as file:
                file.writelines(json.dumps({"step": step, **row}, ensure_ascii=False) + "\n" for row in rows)
        except OSError as error:
            raise UserError(
                f"could not write {self.path} ({error.strerror}): make room there, then resume."
            ) from error
        for reader in self.readers:
            reader.texts(step, [row["text"] for row in rows])


def draw(model: Model, num: int) -> list[dict[str, Any]]:
    """`num` samples with seeds 0, 1, ... as text."""
    batch = _held_out(model.config, num)
    tokens, given = (batch.tokens, batch.given) if batch.given.any() else (None, None)
    found = model.sample(num, seeds=range(num), tokens=tokens, given=given)
    return [{"seed": seed, "text": text} for seed, text in enumerate(model.decode(found.tokens.cpu()))]


class AnswerAccuracy:
    """A metric for tasks whose sequences have one right completion: the share completed, and that of single tokens."""

    def __init__(self, config: RunConfig, num: int = ANSWERED) -> None:
        self.config, self.num = config, num

    def __call__(self, denoiser: nn.Module) -> dict[str, float]:
        batch = _held_out(self.config, self.num)
        found = Model(denoiser, self.config).sample(
            self.num, seeds=range(self.num), tokens=batch.tokens, given=batch.given
        )
        right = found.tokens.cpu() == batch.tokens
        return {
            "accuracy": float(right.all(-1).double().mean()),
            "token_accuracy": float(right[~batch.given].double().mean()),
        }


def metric(config: RunConfig) -> AnswerAccuracy | None:
    """The task's own measure of a network in training, if it has one."""
    return AnswerAccuracy(config) if config.task.has_answers else None


def _held_out(config: RunConfig, num: int) -> Batch:
    return config.task.validation().batch(torch.arange(num))
