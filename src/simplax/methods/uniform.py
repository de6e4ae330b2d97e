"""Uniform-state diffusion trained on a reverse bridge: Simplax, and UDLM as its eta -> 0 member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.concentration import Concentration, PerToken, as_concentration
from simplax.methods.base import HasLikelihood, Method, num_categories, per_sample
from simplax.nn import Architecture, Denoiser, attribute, call
from simplax.objectives.bridge import FiniteStep
from simplax.objectives.fused import Hidden, Output, output, rate_density
from simplax.processes.simplex import Atoms, Dense, Marginal, SimplexState, form, pinned, readable
from simplax.processes.uniform import Prediction, Prior, corrupt
from simplax.samplers import Ancestral
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.base import Sampler
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class UniformMethod(Method, HasLikelihood):
    """What all methods with uniform noise share: options, network, bound.

    `weighting="elbo"` keeps the jump rate lambda(t) in the loss, `"constant"` divides it out: one reading of the
    paper's "constant loss weighting".
    """

    noise: ClassVar[str] = "uniform"

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

    def network_reads_w(self) -> bool:
        """Whether the network is shown simplex states; tokens otherwise."""
        return False

    def check_sampler(self, sampler: Sampler[Any]) -> None:
        super().check_sampler(sampler)
        trained = self.network_reads_w()
        shown = isinstance(sampler, SimplaxSampler) and sampler.reads_w
        if shown != trained:
            read = {False: "tokens z", True: "simplex states w"}
            raise ValueError(
                f"the method's network reads {read[trained]} and the sampler {type(sampler).__name__} shows it "
                f"{read[shown]}: give the sampler reads_w={str(trained).lower()}, with form=atoms for states"
            )

    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """The UDLM bound of the network, whatever objective trained it."""
        t = self.times(context.u)
        alpha = per_sample(self.schedule.alpha(t))
        prior = Prior(num_categories(denoiser))
        z = torch.where(batch.given, batch.tokens, corrupt(batch.tokens, alpha, prior, context.keys))
        given = foresee(denoiser, z, t, batch, context)
        state = Marginal(z, batch.tokens, alpha, torch.zeros_like(alpha), prior)
        rate = per_sample(self.schedule.rate(t)) * (self.times.high - self.times.low)
        value = rate_density(given, batch.tokens, state, alpha, rate, prior, batch.scored)
        return Loss(value, batch.scored)

    def ends(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """Reconstruction from the first time by the posterior of x given z and x_hat, and KL(q(z_1 | x) || pi)."""
        x, prior = batch.tokens, Prior(num_categories(denoiser))
        first, last = (torch.full_like(context.u, t) for t in (self.times.low, self.times.high))
        alpha = per_sample(self.schedule.alpha(first))
        z = torch.where(batch.given, x, corrupt(x, alpha, prior, context.keys.fold_in(1)))
        prediction = Prediction(predict(denoiser, z, first, batch, context))
        own = alpha * (x == z) + (1 - alpha) / prior.size  # the chance of z if the token is x
        at_z = alpha * prediction.at(z) + (1 - alpha) / prior.size
        prior_term = _prior_divergence(per_sample(self.schedule.alpha(last)), prior.size)
        return scored(at_z.log() - own.log() - prediction.log_at(x) + prior_term, batch)


@dataclass(frozen=True)
class UDLM(UniformMethod):
    """Uniform discrete diffusion (Schiff et al. 2025): the bridge anchored on z_t alone.

    `num_steps` replaces the continuous-time density by the bridge over steps of length 1/num_steps, times num_steps.
    """

    num_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps is not None and self.num_steps < 1:
            raise ValueError(
                f"num_steps must be at least 1, or None for continuous time, got {self.num_steps}"
            )

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        step = None if self.num_steps is None else FiniteStep("bridge", self.num_steps)
        return bridge_loss(self, denoiser, batch, context, None, step)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return Ancestral(**options)


@dataclass(frozen=True)
class Simplax(UniformMethod):
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
        chosen, concentration = form(self.form, self.reads_w), as_concentration(self.concentration)
        if isinstance(concentration, PerToken):
            raise ValueError(
                "PerToken counts the steps of a sampler: give training a constant or vanishing eta"
            )
        if self.step is None:
            return
        if not (self.step.linear or chosen.readable):
            raise ValueError(f"{self.step.surrogate} is not linear in w: use form='atoms' or form='dense'")
        earliest = torch.tensor(_earliest(self.times, self.step), dtype=torch.float64)
        if self.step.has_simplex_target and not (earliest > 0 and concentration(earliest) > 0):
            raise ValueError(
                f"{self.step.surrogate} has a simplex state as its target: times.low and eta must be above zero"
            )

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        return bridge_loss(self, denoiser, batch, context, self, self.step)

    def sampler(self, **options: Any) -> Sampler[Any]:
        defaults = {
            "eta": self.concentration,
            "form": "atoms" if self.reads_w else "marginal",
            "reads_w": self.reads_w,
        }
        return SimplaxSampler(**{**defaults, **options})

    def network_reads_w(self) -> bool:
        return self.reads_w


def bridge_loss(
    method: UniformMethod,
    denoiser: nn.Module,
    batch: Batch,
    context: StepContext,
    simplax: Simplax | None = None,
    step: FiniteStep | None = None,
) -> Loss:
    """The one loss of the family: on the simplex state of `simplax` or on z_t, in continuous time or over a `step`."""
    t = method.times(context.u)
    alpha = per_sample(method.schedule.alpha(t))
    prior = Prior(num_categories(denoiser))
    state, z, eta = _draw_state(simplax, batch, t, alpha, prior, context)
    z = torch.where(batch.given, batch.tokens, z)
    reads = _shown(state, batch) if simplax is not None and simplax.reads_w else z
    rate = per_sample(method.schedule.rate(t))
    if step is None:
        weight = rate if method.weighting == "elbo" else torch.ones_like(rate)
        given = foresee(denoiser, reads, t, batch, context)
        return Loss(
            rate_density(given, batch.tokens, state, alpha, weight, prior, batch.scored), batch.scored
        )
    logits = predict(denoiser, reads, t, batch, context)
    s = (t - 1.0 / step.num_steps).clamp(min=_earliest(method.times, step))
    value = step(logits, batch.tokens, state, per_sample(method.schedule.alpha(s)), alpha, eta(s), prior)
    return scored(value if method.weighting == "elbo" else value / rate, batch)


def _earliest(times: TimeLaw, step: FiniteStep) -> float:
    """The earliest time a step may end at: there is no simplex state at time zero."""
    return times.low / 2 if step.has_simplex_target else 0.0


def _draw_state(
    simplax: Simplax | None, batch: Batch, t: Tensor, alpha: Tensor, prior: Prior, context: StepContext
) -> tuple[SimplexState, Tensor, Any]:
    if simplax is None:
        # the same noise as every form of Simplax sees
        z = corrupt(batch.tokens, alpha, prior, context.keys.fold_in(0))
        return Marginal(z, batch.tokens, alpha, torch.zeros_like(alpha), prior), z, torch.zeros_like
    concentration = as_concentration(simplax.concentration)

    def eta(time: Tensor) -> Tensor:
        return per_sample(concentration(time))

    state, z = form(simplax.form).draw(
        batch.tokens, alpha, eta(t), concentration.largest, prior, context.keys
    )
    return state, z, eta


def _shown(state: SimplexState, batch: Batch) -> Tensor | Atoms:
    """What a network that reads w is shown: given positions sit on their tokens."""
    assert isinstance(state, Dense | Atoms)
    return readable(pinned(state, batch.tokens, batch.given))


def predict(denoiser: nn.Module, z: object, t: Tensor, batch: Batch, context: StepContext) -> Tensor:
    """The logits of `foresee`."""
    given = foresee(denoiser, z, t, batch, context)
    return given.logits() if isinstance(given, Hidden) else given


def foresee(denoiser: nn.Module, z: object, t: Tensor, batch: Batch, context: StepContext) -> Output:
    """One network call, to logits or to features whose projection the loss makes.

    Half of the samples see a first prediction when the network conditions on itself.
    """
    time = t.float()
    arguments = {"given": batch.given, "attend": batch.attend}
    if attribute(denoiser, "self_conditioning"):
        with torch.no_grad():
            first = torch.softmax(call(denoiser, z, time, **arguments).float(), dim=-1)
        shown = context.keys.fold_in(7).uniform(1, 1) < 0.5
        arguments["self_condition"] = first * shown.to(first)
    return output(denoiser, z, time, **arguments)


def scored(per_token: Tensor, batch: Batch) -> Loss:
    return Loss(torch.where(batch.scored, per_token, 0.0), batch.scored)


def _prior_divergence(alpha: Tensor, size: int) -> Tensor:
    """KL(alpha x + (1 - alpha) pi || pi) for uniform pi: what a clean token still shows at the last time."""
    stays, other = alpha + (1 - alpha) / size, (1 - alpha) / size
    return torch.xlogy(stays, size * stays) + (size - 1) * torch.xlogy(other, size * other)
