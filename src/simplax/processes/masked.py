"""The masking process: a token is itself with chance alpha_t and the mask otherwise. The mask's id is the data's K.

Draws of the reverse step take two stages: whether a mask is lifted (a chance that needs no prediction), then what is
under it. So only positions that change pay for a categorical draw, and no event is too rare to be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplax.functional.masked import absorbing_posterior
from simplax.processes.base import TokenProcess, required
from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.schedules import Schedule


@dataclass(frozen=True)
class MaskedProcess(TokenProcess):
    """A token is itself with chance alpha_t and masked otherwise; `size` counts the data's categories, not the mask."""

    name: ClassVar[str] = "masks"

    schedule: Schedule
    categories: int

    @property
    def size(self) -> int:
        return self.categories

    @property
    def mask_id(self) -> int:
        return self.categories

    @classmethod
    def around(cls, denoiser: Any, schedule: Schedule | None, prior: Prior) -> MaskedProcess:
        return cls(required(schedule), prior.size)

    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        return torch.full((batch, length), self.mask_id, device=keys.state.device)

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        return corrupt(x, self.alpha(t), self.mask_id, keys)

    def lifted(self, z: Tensor, t: Tensor, s: Tensor | None, keys: Keys) -> Tensor:
        """Which masks of `z` are lifted between t and s; all of them by time zero."""
        masked = z == self.mask_id
        if s is None:
            return masked
        alpha_t, alpha_s = self.alpha(t), self.alpha(s)
        return masked & (keys.uniform(*z.shape[1:]) < (alpha_s - alpha_t) / (1 - alpha_t))

    def bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None, keys: Keys) -> Tensor:
        where = self.lifted(z, t, s, keys.stream("lift"))
        return self.fill(z, where, prediction, keys.stream("fill").uniform(*z.shape[1:]))

    def log_bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None) -> Tensor:
        alpha_t = self.alpha(t)
        alpha_s = torch.ones_like(alpha_t) if s is None else self.alpha(s)
        x_hat = torch.softmax(self.without_mask(prediction).logits.double(), dim=-1)
        return absorbing_posterior(x_hat, z, alpha_s, alpha_t, self.mask_id, validate=False).log()

    def recover(self, z: Tensor, x: Tensor, t: Tensor, s: Tensor, keys: Keys) -> Tensor:
        return torch.where(self.lifted(z, t, s, keys), x, z)

    def fill(self, z: Tensor, where: Tensor, prediction: Prediction, u: Tensor) -> Tensor:
        """`z` with the positions `where` replaced by draws from x_hat at the uniforms `u`; the mask is never drawn."""
        return self.without_mask(prediction).draw(where, u, otherwise=z)

    def greedy(self, z: Tensor, prediction: Prediction) -> Tensor:
        return torch.where(z == self.mask_id, self.without_mask(prediction).logits.argmax(-1), z)

    def likeliest(self, z: Tensor, prediction: Prediction, t: Tensor) -> Tensor:
        """A visible token is certain; a mask carries no information, so the posterior there is x_hat."""
        return self.greedy(z, prediction)

    def without_mask(self, prediction: Prediction) -> Prediction:
        """Networks that also have an output for the mask (published ones do) lose it; others are left alone."""
        if prediction.size <= self.mask_id:
            return prediction
        return Prediction(prediction.logits[..., : self.mask_id])


def corrupt(x: Tensor, alpha_t: Tensor, mask_id: int, keys: Keys) -> Tensor:
    """z_t for ids `x` (batch, length); `alpha_t` broadcasts."""
    return torch.where(keys.uniform(*x.shape[1:]) < alpha_t, x, mask_id)
