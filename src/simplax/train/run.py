"""What a training run is, besides method, network and data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from simplax.errors import UserError
from simplax.train.optimizer import Optimizer

OPERATIONS = frozenset({
    "steps", "accumulate", "compile", "sharding", "log_every", "save_every", "keep", "keep_every", "validate_every",
    "validation_batches", "sample_every",
})  # fmt: skip
"""Fields of `Run` that may change whenever a run goes on; all others decide its weights and are fixed at the start."""

ROUNDING = frozenset({"accumulate", "compile", "sharding"})
"""Operations that change the order of sums, and with it the last digits."""


@dataclass(frozen=True)
class Run:
    """Length, batch, precision and habits of a run.

    `batch_size` is global: it is divided over processes and over `accumulate` micro-batches, and neither changes the
    result beyond rounding. `ema` is the decay of the weight average. `keep` checkpoints are kept besides the best,
    and those of every multiple of `keep_every` steps, from which another run may branch off.
    `validation_batches` batches of `batch_size` held-out samples are scored every `validate_every` steps; 0 means
    never, here and for `keep_every`, `sample_every` and `save_every` (the last step is always saved).
    `OPERATIONS` names the fields that may change when a run goes on.
    """

    steps: int
    batch_size: int
    accumulate: int = 1
    seed: int = 1
    optimizer: Optimizer = field(default_factory=Optimizer)
    ema: float = 0.9999
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    sharding: Literal["ddp", "fsdp"] = "ddp"
    log_every: int = 50
    save_every: int = 1000
    keep: int = 2
    keep_every: int = 0
    validate_every: int = 0
    validation_batches: int = 8
    sample_every: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "log_every", "keep", "validation_batches"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("save_every", "keep_every", "validate_every", "sample_every"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must be 0 (never) or positive, got {getattr(self, name)}.")
        if not 0 <= self.seed < 2**62:
            raise UserError(f"seed must lie between 0 and 2^62 - 1, got {self.seed}.")
        if not 0.0 <= self.ema < 1.0:
            raise UserError(f"ema must lie in [0, 1), got {self.ema}.")

    def micro_batch(self, processes: int) -> int:
        """Samples per process and micro-batch."""
        parts = processes * self.accumulate
        if self.batch_size % parts:
            raise UserError(
                f"batch_size {self.batch_size} must be a multiple of processes x accumulate = "
                f"{processes} x {self.accumulate} = {parts}."
            )
        return self.batch_size // parts
