"""Left-to-right sampling through the same loop: a step is a position, the state carries the key-value cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn import Cache
from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.causal import CausalProcess
from simplax.processes.prediction import Prediction
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.times import Grid


@dataclass(frozen=True)
class ARState:
    """`position` is the next one to draw; `given` the positions that are not drawn, once the loop has set them."""

    z: Tensor
    position: int = 0
    given: Tensor | None = None
    cache: Cache | None = None


@dataclass(frozen=True)
class LeftToRight(Sampler[ARState]):
    """Draws every token from the network's own conditional: exact, one network call per position.

    With `cache` a call reads only the tokens that are new (the given prefix in one go, which saves the calls for its
    positions); networks without a cache read the whole prefix each time, with the same result. Given positions must
    be a prefix of every sequence: the conditional of a token given a later one is not available.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (CausalProcess,)
    exactness: ClassVar[str] = "exact; a perfect network gives the data's law"

    cache: bool = True
    """keep what the network computed for earlier positions, where it can"""
    bos_in_data: bool = False
    """sequences begin with a start symbol of their own, which must be given; as in training"""

    def steps_for(self, length: int) -> int:
        return length

    def grid(self, num_steps: int) -> Tensor:
        return Grid()(num_steps)

    def init(self, setting: Setting, keys: Keys) -> ARState:
        return ARState(torch.zeros(setting.batch, setting.length, dtype=torch.long, device=keys.state.device))

    def pin(self, state: ARState, tokens: Tensor, given: Tensor) -> ARState:
        if state.given is None and bool((given[:, 1:] & ~given[:, :-1]).any()):
            raise ValueError(
                "an autoregressive model can only continue a prefix: give the first positions of each sequence "
                "and no others, or use a diffusion method to fill in gaps"
            )
        return replace(state, z=torch.where(given, tokens, state.z), given=given)

    def step(
        self, state: ARState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> ARState:
        here = state.position
        if state.given is not None and bool(state.given[:, here].all()):
            return replace(state, position=here + 1)
        if self.bos_in_data and here == 0:
            raise ValueError(
                "this model does not predict the first token: give position 0, the start of sequence"
            )
        state, prediction = self._next(state, network, t, setting)
        drawn = prediction.draw_all(keys.stream("draw").uniform(1))
        column = torch.arange(setting.length, device=state.z.device) == here
        return replace(state, z=torch.where(column, drawn, state.z), position=here + 1)

    def _next(
        self, state: ARState, network: Chain, t: Tensor, setting: Setting
    ) -> tuple[ARState, Prediction]:
        """The law of the token at the state's position, (batch, 1, K)."""
        read = state.z[:, : state.position]
        if not self.bos_in_data:
            read = torch.nn.functional.pad(read, (1, 0), value=setting.size)
        cache = state.cache
        if cache is None and self.cache and hasattr(network.inner, "new_cache"):
            cache = network.inner.new_cache(network.copies * setting.batch, network.loops)
        done = 0 if cache is None else cache.length
        # a causal network needs no mask for what is not there yet, and nothing else is known about positions
        prediction = network.read(read[:, done:], t, cache=cache, given=None, attend=None, last_only=True)
        return replace(state, cache=cache), Prediction(prediction.logits[:, -1:, : setting.size])

    def finish(self, state: ARState, network: Chain, t: Tensor, setting: Setting, keys: Keys) -> ARState:
        return state

    def tokens(self, state: ARState) -> Tensor:
        return state.z
