"""The re-anchoring family in one step rule, for uniform and for masked states.

A step draws from kappa q_s + (1 - kappa) (alpha_s D + (1 - alpha_s) pi), where q_s is the reverse posterior to s and D
what a token is redrawn from: the posterior of its clean value (psi samplers, remasking, predict-and-renoise) or the
prediction itself, which for uniform states has not seen the token. It is drawn as that mixture, with a coin per token,
so no K-vector is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplax.concentration import Concentration
from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.masked import MaskedProcess
from simplax.processes.prediction import Prediction
from simplax.processes.uniform import UniformProcess, draw_afresh
from simplax.random import Keys
from simplax.samplers.base import Setting
from simplax.samplers.chains import TokenChain, TokenState
from simplax.samplers.endings import check_ending
from simplax.samplers.gibbs import Gibbs
from simplax.samplers.kappa import Fixed, FromEta, Kappa, Plateau
from simplax.samplers.positions import All, Positions
from simplax.times import Grid

Redraw = Callable[[Setting, Tensor, Tensor, Tensor, Prediction, Tensor, Tensor, Keys], Tensor]
"""(setting, z, otherwise, where, prediction, t, s, keys): `otherwise` with new tokens at s where `where` holds, for `z`
at t."""


def _from_posterior(
    setting: Setting,
    z: Tensor,
    otherwise: Tensor,
    where: Tensor,
    prediction: Prediction,
    t: Tensor,
    s: Tensor,
    keys: Keys,
) -> Tensor:
    clean = setting.bridge(z, prediction, t, None, keys.stream("redraw"))
    return torch.where(where, setting.process.corrupt(clean, s, keys.stream("corrupt")), otherwise)


def _from_prediction(
    setting: Setting,
    z: Tensor,
    otherwise: Tensor,
    where: Tensor,
    prediction: Prediction,
    t: Tensor,
    s: Tensor,
    keys: Keys,
) -> Tensor:
    alpha = setting.process.alpha(s).to(z.device)
    return draw_afresh(otherwise, where, prediction, alpha, setting.process.prior, keys.stream("redraw"))


REDRAWS: dict[str, Redraw] = {"posterior": _from_posterior, "prediction": _from_prediction}


@dataclass(frozen=True)
class Psi(TokenChain):
    """Redraws a share 1 - `kappa` of the tokens in every step, for uniform and for masked noise.

    Draws from its own step law are exact. N network calls for N steps, one more with `last`, `gibbs.sweeps` more for
    every step but the last. Were x_hat the clean token, every kappa would keep the marginals. With the exact predictor
    (leave-one-out for uniform noise) the chain tends to the data's law as N grows: as 1/N if a token is redrawn a fixed
    number of times in all (1 - kappa of order 1/N, as `FromEta(PerToken(...))` arranges) or if tokens redrawn in one
    step do not depend on each other (`positions`), and about as 1/sqrt(N) at a fixed kappa with the posterior, because
    tokens redrawn in one step are drawn independently (orders measured on an enumerable problem). At a fixed kappa with
    `redraw="prediction"`, and with the previous prediction, it keeps a distance.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (UniformProcess, MaskedProcess)
    exactness: ClassVar[str] = (
        "exact draws; tends to the data's law where few tokens, or such as do not depend on each other, are redrawn "
        "at once, and with the posterior"
    )

    kappa: Kappa = field(default_factory=Fixed)
    """weight of the reverse posterior, 1 - the share of tokens that a step redraws: a number, or a rule"""
    times: Grid | Plateau = field(default_factory=Grid)
    """times of the steps"""
    last: str | None = None
    """end of the chain: greedy, posterior or posterior_argmax, with one more network call"""
    redraw: str = "posterior"
    """posterior: the clean token given all tokens; prediction: x_hat, given the others (uniform states only)"""
    prediction: str = "current"
    """current: the share is redrawn in the step; previous: before the next one, which starts from it (as Simplax)"""
    positions: Positions = field(default_factory=All)
    """which positions may be redrawn at once"""
    gibbs: Gibbs | None = None
    """sweeps after every step that redraw a few positions given all others, with network calls of their own"""

    @staticmethod
    def modernised(stored: Mapping[str, Any]) -> dict[str, Any]:
        """Older versions stored the kind of noise, which is the model's."""
        return {name: value for name, value in stored.items() if name != "noise"}

    def __post_init__(self) -> None:
        check_ending(self.last)
        for what, name, table in (("redraw", self.redraw, REDRAWS), ("prediction", self.prediction, _STEPS)):
            if name not in table:
                raise ValueError(f"unknown {what} {name!r}: choose one of {', '.join(table)}")

    def init(self, setting: Setting, keys: Keys) -> TokenState:
        if not isinstance(setting.process, UniformProcess) and (self.redraw != "posterior" or self.gibbs):
            raise ValueError(
                "a network of masked states has seen the tokens that are not masked: redraw them from the posterior, "
                "without Gibbs sweeps"
            )
        past_the_guide = self.gibbs is not None or (self.redraw, self.prediction) == ("prediction", "current")
        if past_the_guide and setting.guide is not None and setting.guide.tilts_steps:
            raise ValueError(
                "a classifier guides tokens that are redrawn from the posterior, and not those of the prediction or of "
                "Gibbs sweeps: leave redraw at posterior and gibbs out"
            )
        z = setting.process.start(setting.batch, setting.length, keys.stream("start"))
        return TokenState(z, z)

    def step(
        self, state: TokenState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> TokenState:
        prediction = self.predict(state, network, t, setting)
        return _STEPS[self.prediction](self, state, network, prediction, (t, s), setting, keys)

    def _redrawn_in_step(
        self,
        state: TokenState,
        network: Chain,
        prediction: Prediction,
        times: tuple[Tensor, Tensor],
        setting: Setting,
        keys: Keys,
    ) -> TokenState:
        t, s = times
        where, all_of_them = self._where(state.number, setting, keys)
        z = state.z
        if not all_of_them:
            z = setting.bridge(z, prediction, t, s, keys.stream("bridge"))
        if where is not None:
            z = REDRAWS[self.redraw](setting, state.z, z, where, prediction, t, s, keys)
        z = self._corrected(z, state, network, s, setting, keys)
        return TokenState(z, z, number=state.number + 1)

    def _redrawn_before_the_next(
        self,
        state: TokenState,
        network: Chain,
        prediction: Prediction,
        times: tuple[Tensor, Tensor],
        setting: Setting,
        keys: Keys,
    ) -> TokenState:
        t, s = times
        z = setting.bridge(state.anchor, prediction, t, s, keys.stream("bridge"))
        z = anchor = self._corrected(z, state, network, s, setting, keys)
        keys = keys.stream("anchor")
        where, _ = self._where(state.number + 1, setting, keys)
        if where is not None and float(s) > 0:
            anchor = REDRAWS[self.redraw](setting, z, z, where, prediction, s, s, keys)
        return TokenState(z, anchor, number=state.number + 1)

    def _where(self, number: int, setting: Setting, keys: Keys) -> tuple[Tensor | None, bool]:
        """Where step `number` redraws tokens, None for nowhere; and whether that is everywhere."""
        times = self.grid(setting.num_steps)
        share = 1 - float(self.kappa(times, setting.process.schedule, setting.num_steps)[number])
        if share <= 0:
            return None, False
        chosen = keys.stream("refresh").uniform(setting.length) < share
        allowed = self.positions.where(number, setting.length, keys.stream("positions"))
        return chosen if allowed is None else chosen & allowed, allowed is None and share >= 1

    def _corrected(
        self, z: Tensor, before: TokenState, network: Chain, s: Tensor, setting: Setting, keys: Keys
    ) -> Tensor:
        if self.gibbs is None or float(s) <= 0:
            return z
        if network.given is not None:  # the sweeps read the state before the loop puts given tokens back
            z = torch.where(network.given, before.z, z)
        return self.gibbs.corrected(z, network, s, setting.process, keys)


_STEPS = {"current": Psi._redrawn_in_step, "previous": Psi._redrawn_before_the_next}


def marginal_reanchor(eta: float | Concentration = 0.01, **options: Any) -> Psi:
    """Re-anchoring that keeps marginals, our own alternative to Simplax's sampler on uniform-state models.

    As often as Simplax (with chance eta / (1 + eta) per step) a token starts afresh, but from the posterior of its
    clean value given the current state, noised to the new time, rather than from the previous step's prediction. So it
    corrects earlier mistakes at any eta and still tends to the data's law, where Simplax's sampler keeps a distance.
    N network calls for N steps.
    """
    return Psi(kappa=FromEta(eta), **options)
