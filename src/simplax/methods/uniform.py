"""What all methods with uniform noise share: options, network, objective, likelihood bound."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.methods.base import HasLikelihood, Method
from simplax.nn import Architecture, Denoiser, Network, attribute, num_categories
from simplax.objectives.bridge import FiniteStep
from simplax.objectives.fused import rate_density
from simplax.processes.base import Process
from simplax.processes.prior import Prior
from simplax.processes.simplex import Marginal, SimplexState
from simplax.processes.uniform import UniformProcess
from simplax.samplers.base import Sampler
from simplax.samplers.simplax import Simplax as SimplaxSampler
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext, per_sample


@dataclass(frozen=True)
class UniformMethod(Method, HasLikelihood, abc.ABC):
    """`weighting="elbo"` keeps the jump rate lambda(t) in the loss, `"constant"` divides it out: one reading of the
    paper's "constant loss weighting".

    `pi` is the prior that tokens are noised towards: `uniform`, `unigram` (the frequencies of the training tokens), or
    a file of one positive number per category; the network keeps it. `rollout` above 1 trains on that many calls along
    a chain with falling times, each reading what the one before it carries (networks with a carry only).
    `gradient_calls` is through how many of them the gradient of a loss goes; 1 stops it at every carry.
    """

    process_type: ClassVar[type[Process]] = UniformProcess

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    weighting: str = "elbo"
    time_conditioning: bool = True
    pi: str = field(default="uniform", kw_only=True)
    rollout: int = field(default=1, kw_only=True)
    gradient_calls: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.weighting not in ("elbo", "constant"):
            raise ValueError(f"unknown weighting {self.weighting!r}: choose elbo or constant")
        if self.rollout < 1:
            raise ValueError(
                f"rollout counts the calls of a chain and must be at least 1, got {self.rollout}"
            )
        if self.gradient_calls < 1:
            raise ValueError(f"gradient_calls must be at least 1, got {self.gradient_calls}")

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        time = self.schedule.sigma if self.time_conditioning else None
        denoiser = Denoiser(vocab_size=vocab_size, length=length, architecture=architecture, time=time)
        if self.pi != "uniform":
            # filled in before the first step, and loaded with the weights; zeros are refused
            denoiser.register_buffer("pi", torch.zeros(vocab_size, dtype=torch.float64))
        return denoiser

    def process(self, denoiser: Any) -> UniformProcess:
        pi = attribute(denoiser, "pi")
        return UniformProcess(self.schedule, Prior(num_categories(denoiser), pi))

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

    def state(
        self, process: UniformProcess, x: Tensor, t: Tensor, context: StepContext
    ) -> tuple[SimplexState, Tensor]:
        """The state that the objective is a function of, and z_t; here a vertex, the token itself."""
        z = process.corrupt(x, t, context.keys.stream("corrupt"))
        return self.vertex(process, z, x, t), z

    @staticmethod
    def vertex(process: UniformProcess, z: Tensor, x: Tensor, t: Tensor) -> SimplexState:
        return Marginal(z, x, process.alpha(t), None, process.prior)

    def shown(self, state: SimplexState, z: Tensor, batch: Batch) -> Any:
        """What the network reads: tokens, with given positions as they are."""
        return z

    def eta(self, t: Tensor) -> Tensor:
        """The concentration of the simplex state at times `t`, as (batch, 1)."""
        return torch.zeros_like(per_sample(t))

    def weight(self, t: Tensor) -> Tensor:
        """What multiplies the density, as (batch, 1)."""
        rate = per_sample(self.schedule.rate(t))
        return rate if self.weighting == "elbo" else torch.ones_like(rate)

    def bridge_loss(
        self,
        denoiser: nn.Module | Network,
        batch: Batch,
        context: StepContext,
        step: FiniteStep | None = None,
    ) -> Loss:
        """The one loss of the family, in continuous time or over a finite `step`."""
        network = Network.of(denoiser)
        process = self.process(network.denoiser)
        if self.rollout > 1 and context.training and step is None:
            return self._rollout_loss(network, process, batch, context)
        t = self.times(context.u) if step is None else step.times(context.u)
        state, z = self.state(process, batch.tokens, t, context)
        z = torch.where(batch.given, batch.tokens, z)
        prediction = network(self.shown(state, z, batch), t, batch, context)
        if step is None:
            return Loss(self._density(prediction, batch, state, t, process), batch.scored)
        s = (t - 1.0 / step.num_steps).clamp(min=step.earliest)
        value = step(
            prediction.logits,
            batch.tokens,
            state,
            process.alpha(s),
            process.alpha(t),
            self.eta(s),
            process.prior,
        )
        return Loss.of(
            value if self.weighting == "elbo" else value / per_sample(self.schedule.rate(t)), batch
        )

    def _density(
        self,
        prediction: Any,
        batch: Batch,
        state: SimplexState,
        t: Tensor,
        process: UniformProcess,
        share: float = 1.0,
    ) -> Tensor:
        weight = share * self.weight(t)
        return rate_density(
            prediction, batch.tokens, state, process.alpha(t), weight, process.prior, batch.scored
        )

    def _rollout_loss(
        self, network: Network, process: UniformProcess, batch: Batch, context: StepContext
    ) -> Loss:
        """The mean loss of `rollout` calls along one path of the noising process, from noisy to clean.

        The states are those of the reversed noising process given x, so a later one holds all that an earlier one says
        about x: a carry never leaks a second look at the token. Together the times are uniform.
        """
        if not network.carry.hidden:
            raise ValueError("rollout needs a network with a carry: set architecture.carry to hidden")
        count, x = self.rollout, batch.tokens
        keywords: dict[str, Any] = {"given": batch.given, "attend": batch.attend, "labels": batch.labels}
        total, carried = torch.zeros_like(x, dtype=torch.float32), None
        z, before = x, None
        for number in range(count):
            place = (context.u + number * _GOLDEN) % 1.0
            t = self.times((count - 1 - number + place) / count)
            keys = context.keys.stream("rollout", number)
            z = process.corrupt(x, t, keys) if before is None else process.recover(z, x, before, t, keys)
            z, before = torch.where(batch.given, x, z), t
            state = self.relaxed(process, z, x, t)
            prediction, carried = network.predict(z, t, carried, fuse=True, **keywords)
            # some calls begin anew at every time, as a likelihood and the first call of a chain do
            keep = context.keys.stream("carry", number).uniform(1)[:, 0] < network.carry.share
            if carried is not None:
                cut = (number + 1) % self.gradient_calls == 0
                carried = network.carry.where(keep, carried.detach() if cut else carried)
            total = total + self._density(prediction, batch, state, t, process, share=1 / count)
        return Loss(total, batch.scored)

    def relaxed(self, process: UniformProcess, z: Tensor, x: Tensor, t: Tensor) -> SimplexState:
        """The mean state given z_t and x."""
        return self.vertex(process, z, x, t)

    def nll(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        """The UDLM bound of the network, whatever objective trained it."""
        network = Network.of(denoiser)
        process = self.process(network.denoiser)
        t, x = self.times(context.u), batch.tokens
        z = torch.where(batch.given, x, process.corrupt(x, t, context.keys.stream("nll")))
        prediction = self._measured(network, process, z, t, batch, context, carry)
        rate = per_sample(self.schedule.rate(t)) * (self.times.high - self.times.low)
        state = self.vertex(process, z, x, t)
        value = rate_density(prediction, x, state, process.alpha(t), rate, process.prior, batch.scored)
        return Loss(value, batch.scored)

    def boundary_terms(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        """Reconstruction from the first time by the posterior of x given z and x_hat, and KL(q(z_1 | x) || pi)."""
        network = Network.of(denoiser)
        process = self.process(network.denoiser)
        x = batch.tokens
        first, last = (torch.full_like(context.u, t) for t in (self.times.low, self.times.high))
        z = torch.where(batch.given, x, process.corrupt(x, first, context.keys.stream("reconstruction")))
        prediction = self._measured(network, process, z, first, batch, context, carry)
        alpha, pi = process.alpha(first), process.prior.at(z)
        own = alpha * (x == z) + (1 - alpha) * pi  # the chance of z if the token is x
        at_z = alpha * prediction.at(z) + (1 - alpha) * pi
        divergence = prior_divergence(x, process.alpha(last), process.prior)
        return Loss.of(at_z.log() - own.log() - prediction.log_at(x) + divergence, batch)

    def _measured(
        self,
        network: Network,
        process: UniformProcess,
        z: Tensor,
        t: Tensor,
        batch: Batch,
        context: StepContext,
        carry: bool,
    ) -> Any:
        """x_hat as a function of z_t alone, which is what makes a bound of it."""
        measuring = StepContext(context.keys, context.u, context.step, training=False) if carry else None
        return network(z, t, batch, measuring)


_GOLDEN = 0.6180339887498949  # multiples of it fill [0, 1) evenly


def prior_divergence(x: Tensor, alpha: Tensor, prior: Prior) -> Tensor:
    """KL(alpha x + (1 - alpha) pi || pi): what a clean token still shows at the last time."""
    pi = prior.at(x)
    stays = alpha + (1 - alpha) * pi
    rest = (1 - alpha) * (1 - pi)
    return torch.xlogy(stays, stays / pi) + torch.xlogy(rest, 1 - alpha)
