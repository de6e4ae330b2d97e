"""A batch on its way down the grid of times: who is still in it, what each has reached, and what is kept of the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.stopping import Agreement, Settled


class Walk:
    """`places` are the sequences of the batch that go on; those that stopped have their answer in `answers`."""

    def __init__(
        self,
        sampler: Sampler[Any],
        network: Chain,
        setting: Setting,
        keys: Keys,
        tokens: Tensor | None,
        given: Tensor | None,
        trajectory: bool,
        score: bool,
    ) -> None:
        self.sampler, self.network, self.setting, self.keys = sampler, network, setting, keys
        self.tokens, self.given = tokens, given
        device = keys.state.device
        self.places = torch.arange(setting.batch, device=device)
        self.agreement = Agreement()
        self.state: Any = self._pinned(sampler.init(setting, keys.stream("init")))
        self.answers = sampler.tokens(self.state).clone()
        self.scores = torch.zeros(setting.batch, device=device) if score else None
        self.frames: list[Tensor] | None = [self.answers.clone()] if trajectory else None
        self.predicted: list[Tensor] | None = [] if trajectory and sampler.decodes else None

    def step(self, number: int, t: Tensor, s: Tensor, stop: Settled | None) -> None:
        before = self.state
        after = self.sampler.step(before, self.network, t, s, self.setting, self.keys.stream("step", number))
        self.state = self._pinned(after)
        if self.frames is not None:
            self._reached(self.places, self.sampler.tokens(self.state))
        if stop is not None or self.predicted is not None:
            decoded = self._decoded(before, t)
            if self.predicted is not None:
                whole = self.answers.clone() if not self.predicted else self.predicted[-1].clone()
                self.predicted.append(whole.index_copy(0, self.places, decoded))
            if stop is not None:
                self._leave(decoded, stop)
        if self.frames is not None:
            self.frames.append(self.answers.clone())

    def now(self) -> Tensor:
        """The tokens of all sequences, those that stopped among them."""
        if not len(self.places):
            return self.answers
        return self.answers.index_copy(0, self.places, self.sampler.tokens(self.state))

    def finish(self, t: Tensor) -> Tensor:
        """The answers of all sequences, those that stopped among them."""
        if len(self.places):
            end = self.sampler.finish(self.state, self.network, t, self.setting, self.keys.stream("finish"))
            self.state = self._pinned(end)
            self._reached(self.places, self.sampler.tokens(self.state))
            self._score(torch.arange(len(self.places), device=self.places.device))
        if self.frames is not None:
            self.frames[-1] = self.answers
        return self.answers

    def paths(self, num_steps: int) -> tuple[Tensor | None, Tensor | None]:
        """Tokens at all times and the decoded predictions of all steps; who stopped stays as it was."""
        if self.frames is None:
            return None, None
        self.frames += self.frames[-1:] * (num_steps + 1 - len(self.frames))
        if not self.predicted:
            return torch.stack(self.frames), None
        self.predicted += self.predicted[-1:] * (num_steps - len(self.predicted))
        return torch.stack(self.frames), torch.stack(self.predicted)

    def _pinned(self, state: Any) -> Any:
        if self.tokens is None or self.given is None:
            return state
        return self.sampler.pin(state, self.tokens, self.given)

    def _reached(self, places: Tensor, tokens: Tensor) -> None:
        if len(places) == len(self.answers):  # also where tokens get another dtype on the way
            self.answers = tokens
        else:
            self.answers = self.answers.index_copy(0, places, tokens)

    def _decoded(self, before: Any, t: Tensor) -> Tensor:
        assert self.network.latest is not None
        decoded = self.sampler.decoded(before, self.network.latest, t, self.setting)
        if self.tokens is None or self.given is None:
            return decoded
        return torch.where(self.given, self.tokens, decoded)

    def _free(self) -> Tensor:
        """Where an answer is the network's: not given, and no padding."""
        free = torch.ones(len(self.places), self.setting.length, dtype=torch.bool, device=self.places.device)
        if self.given is not None:
            free = free & ~self.given
        return free if self.network.attend is None else free & self.network.attend

    def _leave(self, decoded: Tensor, stop: Settled) -> None:
        """Sequences that have settled leave with what they decode to; all others go on without them."""
        assert self.network.latest is not None
        free = self._free()
        self.agreement = self.agreement.after(decoded, free)
        done = self.agreement.settled(stop, self.network.latest, free)
        leaving, staying = done.nonzero().squeeze(-1), (~done).nonzero().squeeze(-1)
        if not len(leaving):
            return
        self._reached_by(leaving, decoded)
        self._score(leaving)
        self.places, self.agreement = self.places[staying], self.agreement.rows(staying)
        self.state, self.keys = self.state.rows(staying), self.keys.rows(staying)
        self.tokens = None if self.tokens is None else self.tokens[staying]
        self.given = None if self.given is None else self.given[staying]
        self.setting = replace(self.setting, batch=len(staying))
        self.network.select(staying)

    def _reached_by(self, rows: Tensor, decoded: Tensor) -> None:
        self.answers = self.answers.index_copy(0, self.places[rows], decoded[rows])

    def _score(self, rows: Tensor) -> None:
        """The mean log-probability of these rows' answers under the network's last word on them."""
        if self.scores is None:
            return
        assert self.network.latest_raw is not None
        answers = self.answers[self.places]
        each = self.network.latest_raw.log_at(answers).masked_fill(~self._free(), 0.0)
        mean = each.sum(-1) / self._free().sum(-1).clamp(min=1)
        self.scores = self.scores.index_copy(0, self.places[rows], mean[rows].to(self.scores))
