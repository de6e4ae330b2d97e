"""What a sampler is: four small functions that the one loop in `loop.py` calls."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor

from simplax.processes.uniform import Prediction, Prior
from simplax.random import Keys
from simplax.schedules import Schedule

State = TypeVar("State")


class Predict(Protocol):
    """One network call: `(network input, t)` to x_hat, with temperature and the like already applied.

    `t` is one time for all or one per sample. With `rows`, indices into the batch, the network reads those samples
    only (its input and `t` are theirs alone) and only they are counted. Other keywords reach the network as they are.
    """

    denoiser: Callable[..., Tensor]
    self_conditioning: bool

    def __call__(self, z: object, t: Tensor, *, rows: Tensor | None = None, **context: Any) -> Prediction: ...


@dataclass(frozen=True)
class Setting:
    """What a sampler knows about the problem besides its own options."""

    batch: int
    length: int
    prior: Prior
    schedule: Schedule
    num_steps: int

    def alpha(self, t: Tensor) -> Tensor:
        return self.schedule.alpha(t)


class Sampler(abc.ABC, Generic[State]):
    """A reverse process. Its docstring says whether it is exact and how many network calls it makes.

    `init` draws the state at the first time of `grid`; `step` goes from t to s < t; `pin` puts known tokens back;
    `finish` may make one more call; `tokens` reads ids off a state.
    """

    def noise_kind(self) -> str | None:
        """What it undoes: `uniform`, `masked` or `vectors`, or `none` from left to right; None says nothing."""
        return None

    def steps_for(self, length: int) -> int | None:
        """The number of steps if the sampler leaves no choice, as one that makes a step per position."""
        return None

    @abc.abstractmethod
    def grid(self, num_steps: int) -> Tensor:
        """Decreasing times; one step is made between each pair of neighbours."""

    @abc.abstractmethod
    def init(self, setting: Setting, keys: Keys) -> State: ...

    @abc.abstractmethod
    def step(
        self, state: State, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> State: ...

    @abc.abstractmethod
    def pin(self, state: State, tokens: Tensor, given: Tensor) -> State: ...

    @abc.abstractmethod
    def finish(self, state: State, predict: Predict, t: Tensor, setting: Setting, keys: Keys) -> State: ...

    @abc.abstractmethod
    def tokens(self, state: State) -> Tensor: ...
