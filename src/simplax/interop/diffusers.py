"""Simplax as a scheduler of diffusers: its sampler for uniform-state models that live in other packages.

The bridge of uniform diffusion needs the leave-one-out predictor p(x_i | z_-i). Models trained by cross-entropy on
every position give the posterior p(x_i | z) instead; `posterior_to_loo` converts it exactly, and the scheduler does so
unless a setting says that the model's output is the former already.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.functional.sampling import outside_nucleus
from simplax.interop import _plain


def _base_classes() -> tuple[Any, Any, Any]:
    """Those of diffusers; without the package everything works but saving and loading the scheduler's settings."""
    try:
        package = importlib.import_module("diffusers")
        settings = importlib.import_module("diffusers.configuration_utils")
        return package.SchedulerMixin, package.ConfigMixin, settings.register_to_config
    except ImportError:
        return _plain.SchedulerMixin, _plain.ConfigMixin, _plain.register_to_config


SchedulerMixin: Any
ConfigMixin: Any
register_to_config: Any
SchedulerMixin, ConfigMixin, register_to_config = _base_classes()


def _shift(logits: Tensor, tokens: Tensor, alpha: float, sign: float) -> Tensor:
    size = logits.shape[-1]
    if not 0.0 <= alpha < 1.0:
        raise UserError(
            f"alpha must lie in [0, 1): at {alpha} the token is known and nothing can be left out."
        )
    amount = sign * math.log1p(size * alpha / (1.0 - alpha))
    place = tokens.unsqueeze(-1)
    return logits.scatter(-1, place, logits.gather(-1, place) + amount)


def posterior_to_loo(logits: Tensor, tokens: Tensor, alpha: float) -> Tensor:
    """Logits of p(x_i | z_-i) from those of p(x_i | z): the evidence of the token itself is taken out."""
    return _shift(logits, tokens, alpha, -1.0)


def loo_to_posterior(logits: Tensor, tokens: Tensor, alpha: float) -> Tensor:
    """The inverse of `posterior_to_loo`."""
    return _shift(logits, tokens, alpha, 1.0)


@dataclass
class SimplaxSchedulerOutput:
    """`prev_sample` (b, l) are the tokens at the next time, `pred_logits` the network's logits after the temperature.

    `sampled_tokens` and `sampled_probs` are the network's likeliest tokens and their probabilities; `anchor` is what
    the step started from, `redrawn` where that was fresh evidence.
    """

    prev_sample: Tensor
    pred_logits: Tensor
    sampled_tokens: Tensor
    sampled_probs: Tensor
    anchor: Tensor
    redrawn: Tensor


class SimplaxScheduler(SchedulerMixin, ConfigMixin):
    """The chain of Simplax over alpha(t) = 1 - (1 - alpha_end) t, one network call per step; `eta=0` is ancestral.

    A time is the index of the step counting up from 0 (an integer, as pipelines of diffusers 0.42 pass it) or t in
    (0, 1] (a float). Index 0, t = 1 or another shape begins a new canvas. `prediction` says what the network gives,
    `temper` whether the temperature acts on that or on the leave-one-out prediction. What is kept between steps is two
    tensors of ids, never one with an axis of categories. All randomness is the generator's.
    """

    order = 1

    @register_to_config
    def __init__(
        self,
        eta: float = 0.01,
        temperature: float = 1.0,
        top_p: float | None = None,
        top_k: int | None = None,
        prediction: Literal["posterior", "loo"] = "posterior",
        temper: Literal["loo", "output"] = "loo",
        alpha_end: float = 0.0,
        num_inference_steps: int = 48,
    ) -> None:
        if eta < 0 or temperature <= 0 or not 0 <= alpha_end < 1:
            raise UserError(
                "eta must not be negative, temperature must be positive, alpha_end must lie in [0, 1)."
            )
        if prediction not in ("posterior", "loo") or temper not in ("loo", "output"):
            raise UserError("prediction must be posterior or loo, and temper loo or output.")
        if (top_p is not None and not 0 < top_p <= 1) or (top_k is not None and top_k < 1):
            raise UserError("top_p must lie in (0, 1] and top_k be at least 1.")
        self._fresh: Tensor | None = None
        self._coin: Tensor | None = None
        self._begin = 0
        self.set_timesteps(num_inference_steps)

    def set_timesteps(self, num_inference_steps: int, device: torch.device | str | None = None) -> None:
        """Walk from t = 1 to 0 in so many equal steps; what an earlier canvas left behind is forgotten."""
        if num_inference_steps < 1:
            raise UserError(f"num_inference_steps must be at least 1, got {num_inference_steps}.")
        self.num_inference_steps = num_inference_steps
        count = torch.arange(num_inference_steps, 0, -1, dtype=torch.float64, device=device)
        self.timesteps = count / num_inference_steps
        self._fresh = self._coin = None

    def set_begin_index(self, begin_index: int = 0) -> None:
        self._begin = begin_index

    def index_for_timestep(self, timestep: Any) -> int:
        """The number of the step that starts at this time, which may be an index already."""
        value = timestep.item() if isinstance(timestep, Tensor) else timestep
        if isinstance(value, int):
            index = value
        else:
            index = round((1.0 - float(value)) * self.num_inference_steps)
        if not 0 <= index < self.num_inference_steps:
            raise UserError(
                f"{value} is not one of the {self.num_inference_steps} steps: an index or t in (0, 1]."
            )
        return index

    def sample_prior(
        self,
        shape: tuple[int, int],
        vocab_size: int,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """A canvas of uniform tokens."""
        return torch.randint(vocab_size, shape, device=device, generator=generator)

    def add_noise(
        self,
        original_samples: Tensor,
        timesteps: Tensor,
        vocab_size: int,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Tokens (b, l) at the times (b,) in [0, 1]: each is kept with probability alpha(t), else uniform."""
        alpha = 1.0 - (1.0 - self._settings.alpha_end) * timesteps.double().reshape(-1, 1)
        u = _uniform(original_samples, generator)
        fresh = torch.randint(
            vocab_size, original_samples.shape, device=original_samples.device, generator=generator
        )
        return torch.where(u < alpha, original_samples, fresh)

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        *,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> Any:
        """One reverse step from logits (b, l, K) at tokens (b, l)."""
        index, size = self.index_for_timestep(timestep), model_output.shape[-1]
        alpha_t, alpha_s = self._alpha(index), self._alpha(index + 1)
        tempered = model_output / self._settings.temperature
        x_hat = self._x_hat(model_output, tempered, sample, alpha_t)
        if index == self._begin or self._coin is None or self._coin.shape != sample.shape:
            self._toss(sample, None, size, 0.0, generator)
        assert self._coin is not None and self._fresh is not None
        redrawn, anchor = self._coin, torch.where(self._coin, self._fresh, sample)
        at_anchor = x_hat.gather(-1, anchor.unsqueeze(-1)).squeeze(-1)
        keep = alpha_t / alpha_s
        p_s, p_t = (alpha * at_anchor + (1.0 - alpha) / size for alpha in (alpha_s, alpha_t))
        stay, redraw = keep * p_s / p_t, (1.0 - keep) * alpha_s / (size * p_t)
        u = _uniform(sample, generator)
        uniform = torch.randint(size, sample.shape, device=sample.device, generator=generator)
        drawn = _draw(x_hat, (u >= stay) & (u < stay + redraw), uniform, generator)
        z = torch.where(u < stay, anchor, drawn)
        self._toss(z, x_hat, size, alpha_s, generator)
        probs, likeliest = torch.softmax(model_output.float(), -1).max(-1)
        output = SimplaxSchedulerOutput(z, tempered, likeliest, probs, anchor, redrawn)
        return output if return_dict else (z, tempered, likeliest, probs, anchor, redrawn)

    @property
    def _settings(self) -> Any:
        return self.config

    def _alpha(self, index: int) -> float:
        return 1.0 - (1.0 - self._settings.alpha_end) * (1.0 - index / self.num_inference_steps)

    def _x_hat(self, output: Tensor, tempered: Tensor, sample: Tensor, alpha: float) -> Tensor:
        """The leave-one-out prediction, shaped, float64."""
        before = self._settings.temper == "output"
        logits = (tempered if before else output).double()
        if self._settings.prediction == "posterior":
            logits = posterior_to_loo(logits, sample, alpha)
        if not before:
            logits = logits / self._settings.temperature
        if self._settings.top_k is not None and self._settings.top_k < logits.shape[-1]:
            least = logits.topk(self._settings.top_k, -1).values[..., -1:]
            logits = logits.masked_fill(logits < least, -math.inf)
        probs = torch.softmax(logits, -1)
        if self._settings.top_p is not None and self._settings.top_p < 1:
            probs = probs.masked_fill(outside_nucleus(probs, self._settings.top_p), 0.0)
            probs = probs / probs.sum(-1, keepdim=True)
        return probs

    def _toss(
        self, z: Tensor, x_hat: Tensor | None, size: int, alpha: float, generator: torch.Generator | None
    ) -> None:
        """Decide where the next step starts from fresh evidence, and draw it there: alpha x_hat + (1 - alpha) / K."""
        eta = self._settings.eta
        self._coin = _uniform(z, generator) < eta / (1.0 + eta)
        fresh = torch.randint(size, z.shape, device=z.device, generator=generator)
        if x_hat is not None:
            fresh = _draw(x_hat, self._coin & (_uniform(z, generator) < alpha), fresh, generator)
        self._fresh = fresh


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, dtype=torch.float64, device=like.device, generator=generator)


def _draw(x_hat: Tensor, where: Tensor, other: Tensor, generator: torch.Generator | None) -> Tensor:
    """A token from x_hat where `where` holds, by inverse CDF, and `other` elsewhere."""
    result, rows = other.clone(), x_hat[where]
    if len(rows):
        u = torch.rand(len(rows), 1, dtype=torch.float64, device=rows.device, generator=generator)
        total = rows.cumsum(-1)
        found = torch.searchsorted(total, u * total[:, -1:], right=True).squeeze(-1)
        result[where] = found.clamp(max=rows.shape[-1] - 1)
    return result
