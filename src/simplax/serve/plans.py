"""What a request becomes before it is queued: everything checked, the first event ready, the work to be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simplax.concentration import as_concentration
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
    """The time of each step, and the noise level and concentration there, for whoever explains a step."""

    def __init__(self, model: Model, sampling: Sampling) -> None:
        self._times = sampling.sampler.grid(sampling.steps).double()
        process = model.method.process(model.denoiser)
        schedule, eta = getattr(process, "schedule", None), getattr(sampling.sampler, "eta", None)
        self._alpha = None if schedule is None else schedule.alpha(self._times)
        self._eta = None if eta is None else as_concentration(eta)(self._times, sampling.steps)

    def at(self, step: int) -> dict[str, Any]:
        """`step`, its `time`, and `alpha` and `eta` where the method has them."""
        number = min(step, len(self._times) - 1)
        return {
            "step": step,
            "time": round(float(self._times[number]), 6),
            "alpha": None if self._alpha is None else round(float(self._alpha[number]), 6),
            "eta": None if self._eta is None else round(float(self._eta[number]), 6),
        }
