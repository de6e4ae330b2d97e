"""Uniform-state diffusion trained on a reverse bridge: Simplax, and UDLM as its eta -> 0 member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from simplax.concentration import Concentration, as_concentration
from simplax.methods.base import HasLikelihood, Method, per_sample
from simplax.nn import Architecture, Denoiser, call
from simplax.objectives.bridge import FiniteStep, rate_density
from simplax.processes.uniform import Prior, corrupt
from simplax.samplers import Ancestral
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.base import Sampler
from simplax.schedules import LogLinear, Schedule
from simplax.simplex import Atoms, Dense, Marginal, SimplexState, form, pinned
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class _Uniform(Method, HasLikelihood):
    """Options both members share.

    `weighting="elbo"` keeps the jump rate lambda(t) in the loss, `"constant"` divides it out: one reading of the
    paper's "constant loss weighting". `prior` is the noise distribution pi, uniform when `None`.
    """

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    weighting: str = "elbo"
    time_conditioning: bool = True

    def __post_init__(self) -> None:
        if self.weighting not in ("elbo", "constant"):
            raise ValueError(f"unknown weighting {self.weighting!r}: choose elbo or constant")

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        time = self.schedule.sigma if self.time_conditioning else None
        return Denoiser(vocab_size=vocab_size, length=length, architecture=architecture, time=time)

    def state_size(self, vocab_size: int) -> int:
        return vocab_size

    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """The UDLM bound of the network, whatever objective trained it."""
        t = self.times(context.u)
        alpha = per_sample(self.schedule.alpha(t))
        prior = Prior(_vocabulary(denoiser))
        z = torch.where(batch.given, batch.tokens, corrupt(batch.tokens, alpha, prior, context.keys))
        logits = predict(denoiser, z, t, batch, context)
        state = Marginal(z, batch.tokens, alpha, torch.zeros_like(alpha), prior)
        rate = per_sample(self.schedule.rate(t)) * (self.times.high - self.times.low)
        return scored(rate_density(logits, batch.tokens, state, alpha, rate, prior), batch)


@dataclass(frozen=True)
class UDLM(_Uniform):
    """Uniform discrete diffusion (Schiff et al. 2025): the bridge anchored on z_t alone."""

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        return _bridge_loss(self, denoiser, batch, context, None)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return Ancestral(**options)


@dataclass(frozen=True)
class Simplax(_Uniform):
    """Simplex relaxation: the bridge averaged over decodes of w_t, of concentration eta.

    `form` is how w_t is represented (`marginal` integrates it out exactly); `reads_w` feeds w_t instead of z_t to the
    network; `step` replaces the continuous-time density by a surrogate over a finite step.
    """

    concentration: float | Concentration = 0.01
    form: str = "marginal"
    reads_w: bool = False
    step: FiniteStep | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reads_w and not form(self.form).readable:
            raise ValueError("a network that reads w needs form='atoms' or form='dense': the marginal form draws no w")

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        return _bridge_loss(self, denoiser, batch, context, self)

    def sampler(self, **options: Any) -> Sampler[Any]:
        defaults = {"eta": self.concentration, "form": "atoms" if self.reads_w else "marginal", "reads_w": self.reads_w}
        return SimplaxSampler(**{**defaults, **options})


def _bridge_loss(
    method: _Uniform, denoiser: nn.Module, batch: Batch, context: StepContext, simplax: Simplax | None
) -> Loss:
    t = method.times(context.u)
    alpha = per_sample(method.schedule.alpha(t))
    prior = Prior(_vocabulary(denoiser))
    state, z, eta = _draw_state(simplax, batch, t, alpha, prior, context)
    z = torch.where(batch.given, batch.tokens, z)
    reads = _shown(state, batch) if simplax is not None and simplax.reads_w else z
    logits = predict(denoiser, reads, t, batch, context)
    rate = per_sample(method.schedule.rate(t))
    step = simplax.step if simplax is not None else None
    if step is None:
        weight = rate if method.weighting == "elbo" else torch.ones_like(rate)
        return scored(rate_density(logits, batch.tokens, state, alpha, weight, prior), batch)
    earliest = method.times.low / 2 if step.has_simplex_target else 0.0
    s = (t - 1.0 / step.num_steps).clamp(min=earliest)
    value = step(logits, batch.tokens, state, per_sample(method.schedule.alpha(s)), alpha, eta(s), prior)
    return scored(value if method.weighting == "elbo" else value / rate, batch)


def _draw_state(
    simplax: Simplax | None, batch: Batch, t: Tensor, alpha: Tensor, prior: Prior, context: StepContext
) -> tuple[SimplexState, Tensor, Any]:
    if simplax is None:
        z = corrupt(batch.tokens, alpha, prior, context.keys)
        return Marginal(z, batch.tokens, alpha, torch.zeros_like(alpha), prior), z, None
    concentration = as_concentration(simplax.concentration)

    def eta(time: Tensor) -> Tensor:
        return per_sample(concentration(time))

    state, z = form(simplax.form).draw(batch.tokens, alpha, eta(t), concentration.largest, prior, context.keys)
    return state, z, eta


def _shown(state: SimplexState, batch: Batch) -> Tensor | Atoms:
    """What a network that reads w is shown, in its own precision."""
    assert isinstance(state, Dense | Atoms)
    shown = pinned(state, batch.tokens, batch.given)
    return shown.w.float() if isinstance(shown, Dense) else Atoms(shown.ids, shown.weights.float())


def predict(denoiser: nn.Module, z: object, t: Tensor, batch: Batch, context: StepContext) -> Tensor:
    """One network call; half of the samples see a first prediction when the network conditions on itself."""
    time = t.float()
    arguments = {"given": batch.given, "attend": batch.attend}
    if getattr(denoiser, "self_conditioning", False):
        with torch.no_grad():
            first = torch.softmax(call(denoiser, z, time, **arguments).float(), dim=-1)
        shown = context.keys.fold_in(7).uniform(1, 1) < 0.5
        arguments["self_condition"] = first * shown.to(first)
    return call(denoiser, z, time, **arguments).float()


def scored(per_token: Tensor, batch: Batch) -> Loss:
    return Loss(torch.where(batch.scored, per_token, 0.0), batch.scored)


def _vocabulary(denoiser: nn.Module) -> int:
    size = getattr(denoiser, "vocab_size", None)
    if size is None:
        raise ValueError("the denoiser must have an attribute vocab_size, the number of categories it predicts")
    return int(size)
