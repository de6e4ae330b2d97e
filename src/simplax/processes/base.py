"""What a process is: how data turn into noise, and how a reverse step undoes a part of it.

One class per family. A method owns its process and hands it to its loss, samplers and likelihood; a sampler names the
class it undoes, so that it can never be run on another.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from torch import Tensor

from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.schedules import Schedule


class Process(abc.ABC):
    """A noising process over sequences of `size` categories. t = 0 is clean, t = 1 is noise."""

    name: ClassVar[str]
    """What data turn into, in a word or two, for messages."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of data categories."""

    @classmethod
    @abc.abstractmethod
    def around(cls, denoiser: Any, schedule: Schedule | None, prior: Prior) -> Process:
        """The process that `denoiser` was made for.

        Networks of vectors hold its parameters; for others the arguments give them.
        """


class TokenProcess(Process):
    """A process whose state is one id per position."""

    schedule: Schedule

    def alpha(self, t: Tensor) -> Tensor:
        """alpha at one time for all, or one per sample as (batch, 1)."""
        alpha = self.schedule.alpha(t)
        return alpha.unsqueeze(-1) if t.dim() == 1 else alpha

    @abc.abstractmethod
    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        """States at t = 1."""

    @abc.abstractmethod
    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        """z_t given the clean ids `x`; `t` is one time or one per sample."""

    @abc.abstractmethod
    def bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None, keys: Keys) -> Tensor:
        """z_s given z_t = `z` and x_hat: the reverse posterior. `s=None` is time zero, whatever the schedule says."""

    @abc.abstractmethod
    def log_bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None) -> Tensor:
        """The logarithm of the law that `bridge` draws from, (batch, length, ids), in float64."""

    @abc.abstractmethod
    def recover(self, z: Tensor, x: Tensor, t: Tensor, s: Tensor, keys: Keys) -> Tensor:
        """z_s given z_t = `z` and the clean ids `x`: one step of the reversed noising process itself."""

    @abc.abstractmethod
    def greedy(self, z: Tensor, prediction: Prediction) -> Tensor:
        """The likeliest token under x_hat wherever the state leaves one open."""

    @abc.abstractmethod
    def likeliest(self, z: Tensor, prediction: Prediction, t: Tensor) -> Tensor:
        """The likeliest clean token under the posterior given z_t = `z` and x_hat."""


def required(schedule: Schedule | None) -> Schedule:
    if schedule is None:
        raise ValueError("schedule is missing: say which noise schedule the denoiser was trained on")
    return schedule
