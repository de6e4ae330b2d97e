"""The loss at an earlier loop of calls that were made already."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from simplax.nn.network import Network
from simplax.processes.prediction import Prediction


class Replay(Network):
    """A network that answers with what another one predicted after the loop numbered `loop` of its recorded calls.

    A loss is a pure function of its network, so that evaluating it here once more gives the loss at that loop.
    """

    def __init__(self, recorded: Network, loop: int) -> None:
        super().__init__(recorded.denoiser, recorded.size, recorded.loops)
        self.loop, self.left = loop, list(recorded.record or [])

    def predict(
        self, state: Any, t: Tensor | None, carried: Tensor | None = None, **options: Any
    ) -> tuple[Prediction, Tensor | None]:
        predictions, carry = self.left.pop(0)
        return predictions[self.loop], carry

    def _first_call(self, *arguments: Any) -> None:
        """What it would leave was read in the recorded call."""
        return None
