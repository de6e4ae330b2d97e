"""FLM's denoiser: noisy one-hot vectors in, read through the embedding."""

from __future__ import annotations

from torch import Tensor

from simplax.functional.continuous import flm_interpolate, flm_knots, flm_slopes
from simplax.nn.architecture import Architecture
from simplax.nn.vectors import VectorDenoiser


class OneHotDenoiser(VectorDenoiser):
    """FLM's: reads y = z E for z in R^K, with the embedding E as it is; `clock` is the table of its schedule."""

    clock: Tensor

    def __init__(self, vocab_size: int, length: int, architecture: Architecture) -> None:
        super().__init__(vocab_size, length, architecture)
        self.register_buffer("clock", flm_knots(vocab_size).clone())
        self._slopes: tuple[Tensor, int, Tensor] | None = None

    def rows(self) -> Tensor:
        return self.table

    def gamma(self, t: Tensor) -> Tensor:
        """The share of the clean token in z, float64; the decoding accuracy is FLM's own time, one minus ours."""
        return flm_interpolate(1 - t.double(), self.clock, self._clock_slopes())

    def _clock_slopes(self) -> Tensor:
        """Slopes of the table, worked out again only after it was loaded or moved."""
        known = self._slopes
        if known is None or known[0] is not self.clock or known[1] != self.clock._version:
            known = self._slopes = (self.clock, self.clock._version, flm_slopes(self.clock))
        return known[2]

    def level(self, t: Tensor) -> Tensor:
        return 1 - t
