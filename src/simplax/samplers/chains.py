"""What chains on tokens share: given positions, the call of the network, and the end of the chain."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.prediction import Prediction
from simplax.processes.simplex import Atoms, Dense
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.endings import ENDINGS
from simplax.samplers.kappa import Plateau
from simplax.times import Grid


@dataclass(frozen=True)
class TokenState:
    """`z` is what the network reads; `anchor` is the id the next bridge starts from; `w` the state if one is kept.

    `number` counts the steps made.
    """

    z: Tensor
    anchor: Tensor
    w: Atoms | Dense | None = None
    number: int = 0

    def rows(self, rows: Tensor) -> TokenState:
        """The states of some of the sequences."""
        w = None if self.w is None else self.w.rows(rows)
        return replace(self, z=self.z[rows], anchor=self.anchor[rows], w=w)


class TokenChain(Sampler[TokenState], abc.ABC):
    """A chain whose steps are bridges from an anchor: the token itself, or one that was redrawn."""

    bridges: ClassVar[bool] = True
    decodes: ClassVar[bool] = True

    times: Grid | Plateau
    last: str | None

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def pin(self, state: TokenState, tokens: Tensor, given: Tensor) -> TokenState:
        return replace(
            state, z=torch.where(given, tokens, state.z), anchor=torch.where(given, tokens, state.anchor)
        )

    def finish(
        self, state: TokenState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> TokenState:
        if self.last is None:
            return state
        prediction = self.predict(state, network, t, setting)
        ending = ENDINGS[self.last](setting.process, state.anchor, prediction, t, keys.stream("ending"))
        return replace(state, z=ending)

    def predict(self, state: TokenState, network: Chain, t: Tensor, setting: Setting) -> Prediction:
        prediction = network.read(self.reads(state), t)
        # published networks of masked states also have an output for the mask
        if not setting.size <= prediction.size <= getattr(setting.process, "mask_id", setting.size - 1) + 1:
            raise ValueError(
                f"the denoiser gives {prediction.size} logits per position: vocab_size must be that, not "
                f"{setting.size}"
            )
        return prediction

    def tokens(self, state: TokenState) -> Tensor:
        return state.z

    def decoded(self, state: TokenState, prediction: Prediction, t: Tensor, setting: Setting) -> Tensor:
        likeliest: Tensor = setting.process.likeliest(state.z, prediction, t)
        return likeliest

    def reads(self, state: TokenState) -> object:
        return state.z
