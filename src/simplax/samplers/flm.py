"""FLM's sampler: Euler steps of the flow of one-hot vectors, in the image of the embedding.

FLM counts time from noise to data; here, as everywhere, t = 1 is noise: its time is 1 - t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from simplax.processes.base import Process
from simplax.processes.onehot import OneHotProcess
from simplax.samplers.vectors import VectorSampler
from simplax.times import Grid


@dataclass(frozen=True)
class OneHotEuler(VectorSampler):
    """Euler steps in gamma towards x_hat, even in the decoding accuracy; deterministic but for the starting noise.

    N network calls for N steps, N - 1 of which move; the last takes the likeliest token. Temperature divides the logits
    of every call, so it sharpens the mean that is moved to; the last choice does not depend on it.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (OneHotProcess,)
    exactness: ClassVar[str] = "approximate (Euler); no law is claimed"

    def grid(self, num_steps: int) -> Tensor:
        return Grid()(num_steps)[:-1]
