"""What a request becomes before it is queued: everything checked, the first event ready, the work to be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simplax.concentration import as_concentration
from simplax.methods import Simplax
from simplax.pretrained.model import Model
from simplax.serve.engine import Work
from simplax.serve.served import Sampling


@dataclass(frozen=True, eq=False)
class Plan:
    """`start` is the first event of a stream; `work` draws the samples and returns the answer."""

    model: Model
    sequences: int
    start: dict[str, Any]
    work: Work


class Clock:
    """The time of each step, and the noise level and concentration there, for whoever explains a step.

    Where the sampler has no concentration of its own but the model was trained with one, that is `trained_eta`:
    E[w | z, x_hat] needs only that z has the marginal law of its time, which all samplers of the method keep.
    """

    def __init__(self, model: Model, sampling: Sampling) -> None:
        self._times = sampling.sampler.grid(sampling.steps).double()
        process = model.method.process(model.denoiser)
        schedule, eta = getattr(process, "schedule", None), getattr(sampling.sampler, "eta", None)
        self._alpha = None if schedule is None else schedule.alpha(self._times)
        self._eta = None if eta is None else as_concentration(eta)(self._times, sampling.steps)
        trained = model.method.eta(self._times) if isinstance(model.method, Simplax) else None
        self._trained = None if self._eta is not None else trained

    def at(self, step: int) -> dict[str, Any]:
        """`step`, its `time`, and `alpha`, `eta` and `trained_eta` where there are such."""
        number = min(step, len(self._times) - 1)
        values = {"alpha": self._alpha, "eta": self._eta, "trained_eta": self._trained}
        return {
            "step": step,
            "time": round(float(self._times[number]), 6),
            **{name: None if of is None else round(float(of[number]), 6) for name, of in values.items()},
        }
