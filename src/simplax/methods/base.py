"""What a method is: its process, how its denoiser is built, its loss, its sampler. Everything else is shared."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.nn import Architecture, Network
from simplax.processes.base import Process
from simplax.samplers.base import Sampler, check_process
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class Facts:
    """A method at a glance, for lists and documentation: `latent` is what is noised."""

    title: str
    latent: str
    sampler: str
    citation: str


class Method(abc.ABC):
    """A frozen dataclass of options, without tensors. Signatures are the same for every method.

    Wherever a `denoiser` is taken, a `Network` around one will do.
    """

    facts: ClassVar[Facts]
    process_type: ClassVar[type[Process]]
    """What data turn into; samplers that undo something else are refused."""

    @property
    def needs_start(self) -> bool:
        """Whether training makes sense only from the weights of another model."""
        return False

    @abc.abstractmethod
    def process(self, denoiser: Any) -> Process:
        """The process that `denoiser` is trained to undo."""

    @abc.abstractmethod
    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        """A denoiser for `vocab_size` data categories."""

    @abc.abstractmethod
    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        """The training objective, unreduced, zero where nothing is scored. It changes nothing."""

    @abc.abstractmethod
    def sampler(self, **options: Any) -> Sampler[Any]:
        """The method's default sampler; options replace its fields."""

    def after_step(  # noqa: B027  most methods learn nothing here
        self, denoiser: nn.Module, observations: Mapping[str, Tensor], step: int
    ) -> None:
        """Learn from what the losses of step `step` observed, all processes' samples in their global order.

        Called once after every optimizer step. Schedules that adapt to the loss do so here and nowhere else.
        """

    def prepare(self, denoiser: nn.Module) -> None:  # noqa: B027
        """Give `denoiser` what only training needs, once, before a run begins or goes on; `release` takes it back."""

    def release(self, denoiser: nn.Module) -> None:  # noqa: B027
        """Leave `denoiser` as it is used: without what `prepare` gave it."""

    def after_average(  # noqa: B027
        self, denoiser: nn.Module, average: Callable[[], Mapping[str, Tensor]], step: int
    ) -> None:
        """Called once after every optimizer step, when the average of the weights is up to date."""

    def check_sampler(self, sampler: Sampler[Any]) -> None:
        """Raise `ValueError` if `sampler` shows the network something else than its training did."""
        check_process(sampler, self.process_type, type(self).__name__)

    @classmethod
    def likelihood_kind(cls) -> str:
        """`exact`, `bound` or `none`."""
        if not issubclass(cls, HasLikelihood):
            return "none"
        return "exact" if cls.exact_likelihood else "bound"


class HasLikelihood(abc.ABC):
    """A method with a bound on, or the exact value of, the negative log-likelihood.

    Both functions take a context with `training=False` for the network's own first call where it carries something from
    call to call, or none (`carry=False`): both are bounds, never mixed by a coin.
    """

    exact_likelihood: ClassVar[bool] = False
    carried_likelihood: ClassVar[bool] = True
    """Whether there is a bound with the network's own first call; if not, its carry is always empty."""

    @abc.abstractmethod
    def nll(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        """Nats per token whose mean over times is a bound (or the value) of the negative log-likelihood.

        A bound's integral runs over the training times only, as is published; `boundary_terms` has the rest.
        """

    @abc.abstractmethod
    def boundary_terms(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        """What a bound also has outside the training times: reconstruction below the first, the prior's term above
        the last. The mean of `nll` plus that of `boundary_terms` is a true bound; zero when `nll` is exact.
        """


def no_boundary_terms(batch: Batch) -> Loss:
    """For methods whose `nll` is all there is."""
    return Loss(torch.zeros(batch.tokens.shape, device=batch.tokens.device), batch.scored)
