"""What a sampler is: a few small functions that the one loop in `loop.py` calls."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.prediction import Prediction
from simplax.random import Keys
from simplax.samplers.guidance import Guide

State = TypeVar("State")


@dataclass(frozen=True)
class Setting:
    """What a sampler knows about the problem besides its own options."""

    batch: int
    length: int
    num_steps: int
    process: Any
    guide: Guide | None = None

    @property
    def size(self) -> int:
        return int(self.process.size)

    def bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None, keys: Keys) -> Tensor:
        """z_s given z_t = `z` and x_hat, guided if there is a guide; `s=None` is time zero."""
        if self.guide is not None:
            return self.guide.bridge(self.process, z, prediction, t, s, keys)
        drawn: Tensor = self.process.bridge(z, prediction, t, s, keys)
        return drawn


WORK = ("nfe", "block_passes", "multiply_adds")


class Counted:
    """Results that say what they cost per sequence: calls alone would hide how deep each of them is."""

    nfe: float
    block_passes: float
    multiply_adds: float

    def work(self) -> dict[str, float]:
        """The three counts by name, for reports and manifests."""
        return {name: getattr(self, name) for name in WORK}


class Sampler(abc.ABC, Generic[State]):
    """A reverse process. Its docstring says whether it is exact and how many network calls it makes.

    `init` draws the state at the first time of `grid`; `step` goes from t to s < t; `pin` puts known tokens back;
    `finish` may make one more call; `tokens` reads ids off a state. Times are numbers on the CPU, whatever the device
    of the state: reading them never waits.
    """

    undoes: ClassVar[tuple[type[Process], ...]]
    """The processes it can undo. The first one is taken for a bare network, which has none of its own."""
    exactness: ClassVar[str]
    """One line for lists: whether its draws are exact, and the law of its samples were the network perfect."""

    decodes: ClassVar[bool] = False
    """Whether every step calls the network on every sequence, so that `decoded` can read an answer off it."""
    bridges: ClassVar[bool] = False
    """Whether its steps are drawn by `Setting.bridge`, which a classifier can guide."""

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
        self, state: State, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> State: ...

    @abc.abstractmethod
    def pin(self, state: State, tokens: Tensor, given: Tensor) -> State: ...

    @abc.abstractmethod
    def finish(self, state: State, network: Chain, t: Tensor, setting: Setting, keys: Keys) -> State: ...

    @abc.abstractmethod
    def tokens(self, state: State) -> Tensor: ...

    def decoded(self, state: State, prediction: Prediction, t: Tensor, setting: Setting) -> Tensor:
        """The likeliest clean tokens, given the state at t that the prediction was made from."""
        raise NotImplementedError


def check_process(sampler: Sampler[Any], process: type[Process], owner: str) -> None:
    """Raise `ValueError` if `sampler` undoes another process than the one `owner` is trained on."""
    if not issubclass(process, sampler.undoes):
        theirs = " or ".join(kind.name for kind in sampler.undoes)
        raise ValueError(
            f"the sampler {type(sampler).__name__} undoes {theirs}, and {owner} is trained on {process.name}: choose "
            "a sampler of its own"
        )
