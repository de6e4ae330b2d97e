"""What a method is: how its denoiser is built, its loss, its sampler. Everything else is shared."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from torch import Tensor, nn

from simplax.nn import Architecture, attribute
from simplax.samplers.base import Sampler
from simplax.schedules import Schedule
from simplax.typing import Batch, Loss, StepContext


class Method(abc.ABC):
    """A frozen dataclass of options, without tensors. Signatures are the same for every method."""

    noise: ClassVar[str | None] = None
    """What data turn into: `uniform`, `masked` or `vectors`, or `none`; samplers of another kind are refused."""

    schedule: Schedule

    @abc.abstractmethod
    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        """A denoiser for `vocab_size` data categories."""

    @abc.abstractmethod
    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """The training objective, unreduced, zero where nothing is scored."""

    @abc.abstractmethod
    def sampler(self, **options: Any) -> Sampler[Any]:
        """The method's default sampler; options replace its fields."""

    def check_sampler(self, sampler: Sampler[Any]) -> None:
        """Raise `ValueError` if `sampler` shows the network something else than its training did."""
        kind = sampler.noise_kind()
        if kind is not None and self.noise is not None and kind != self.noise:
            raise ValueError(
                f"the sampler {type(sampler).__name__} undoes another noise ({kind}) than {type(self).__name__} is "
                f"trained on ({self.noise}): choose one of its own"
            )


class HasLikelihood(abc.ABC):
    """A method with a bound on, or the exact value of, the negative log-likelihood."""

    exact_likelihood: bool = False

    @abc.abstractmethod
    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """Nats per token whose mean over times is a bound (or the value) of the negative log-likelihood.

        A bound's integral runs over the training times only, as is published; `ends` has the rest.
        """

    @abc.abstractmethod
    def ends(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """What a bound also has outside the training times: reconstruction below the first, the prior's term above
        the last. The mean of `nll` plus that of `ends` is a true bound; zero when `nll` is exact.
        """


def num_categories(denoiser: object) -> int:
    """The number of categories a denoiser predicts: its `output_size` if it has one, else its `vocab_size`."""
    size = attribute(denoiser, "output_size") or attribute(denoiser, "vocab_size")
    if size is None:
        raise ValueError(
            "the denoiser must have an attribute vocab_size, the number of categories it predicts"
        )
    return int(size)


def per_sample(values: Tensor) -> Tensor:
    """(batch,) scalars as (batch, 1), to broadcast against (batch, length)."""
    return values.unsqueeze(-1)
