"""The masking process: a token is itself with chance alpha_t and the mask otherwise. The mask's id is the data's K.

Draws of the reverse step take two stages: whether a mask is lifted (a chance that needs no prediction), then what is
under it. So only positions that change pay for a categorical draw, and no event is too rare to be drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.processes.uniform import Prediction
from simplax.random import Keys


def corrupt(x: Tensor, alpha_t: Tensor, mask_id: int, keys: Keys) -> Tensor:
    """z_t for ids `x` (batch, length); `alpha_t` broadcasts."""
    return torch.where(keys.uniform(*x.shape[1:]) < alpha_t, x, mask_id)


def fill(z: Tensor, where: Tensor, prediction: Prediction, mask_id: int, u: Tensor) -> Tensor:
    """`z` with the positions `where` replaced by draws from x_hat at the uniforms `u`; the mask is never drawn."""
    filled = z.clone()
    filled[where] = without_mask(prediction, mask_id).draw(where, u)
    return filled


def fill_greedily(z: Tensor, where: Tensor, prediction: Prediction, mask_id: int, u: Tensor) -> Tensor:
    """`z` with the positions `where` replaced by the likeliest token."""
    return torch.where(where, without_mask(prediction, mask_id).logits.argmax(-1), z)


def draw_bridge(
    z: Tensor, prediction: Prediction, alpha_s: Tensor, alpha_t: Tensor, mask_id: int, keys: Keys
) -> Tensor:
    """z_s given z_t = `z`: every mask is lifted with chance (alpha_s - alpha_t) / (1 - alpha_t)."""
    where = lifted(z, alpha_s, alpha_t, mask_id, keys.fold_in(0))
    return fill(z, where, prediction, mask_id, keys.fold_in(1).uniform(*z.shape[1:]))


def lifted(z: Tensor, alpha_s: Tensor, alpha_t: Tensor, mask_id: int, keys: Keys) -> Tensor:
    """Which masks of `z` are lifted between t and s."""
    return (z == mask_id) & (keys.uniform(*z.shape[1:]) < (alpha_s - alpha_t) / (1 - alpha_t))


def without_mask(prediction: Prediction, mask_id: int) -> Prediction:
    """Networks that also have an output for the mask (published ones do) lose it; others are left alone."""
    return prediction if prediction.size <= mask_id else Prediction(prediction.logits[..., :mask_id])
