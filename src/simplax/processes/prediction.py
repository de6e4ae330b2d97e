"""What a network says about the clean tokens: x_hat at every position."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.functional.guidance import classifier_free
from simplax.random import categorical

_DRAW_ELEMENTS = 2**22  # probabilities alive at once however many positions are drawn
_BLOCK_ELEMENTS = 2**17  # logits that each thread works on at once: they and a copy of them fit its cache


@dataclass(frozen=True)
class Projection:
    """Features (batch, length, d) that still await their projection to logits.

    `cap` is the soft-cap of the logits, `dtype` that of the matrix product (None: the features' own).
    """

    features: Tensor
    weight: Tensor
    bias: Tensor | None
    cap: float | None = None
    dtype: torch.dtype | None = None

    def logits(self) -> Tensor:
        """All logits at once."""
        dtype = self.dtype or self.features.dtype
        bias = None if self.bias is None else self.bias.to(dtype)
        with torch.autocast(self.features.device.type, enabled=False):
            logits = torch.nn.functional.linear(self.features.to(dtype), self.weight.to(dtype), bias)
        logits = logits.to(self.features.dtype)
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


class Prediction:
    """x_hat stored as logits and one normaliser per position; the dense form is built only when requested.

    A prediction may hold a `projection` instead of logits. Losses that know how to work on it never hold all logits at
    once; for everything else `logits` are made when first read.
    """

    def __init__(self, logits: Tensor | None = None, *, projection: Projection | None = None) -> None:
        if (logits is None) == (projection is None):
            raise ValueError("a prediction is made from logits or from a projection")
        self.projection = projection
        if logits is not None:
            self.logits = logits

    @functools.cached_property
    def logits(self) -> Tensor:
        assert self.projection is not None
        return self.projection.logits()

    @functools.cached_property
    def log_normaliser(self) -> Tensor:
        return log_normaliser(self.logits)

    @property
    def size(self) -> int:
        return self.logits.shape[-1] if self.projection is None else len(self.projection.weight)

    def at(self, ids: Tensor) -> Tensor:
        """x_hat at one id per position, or at several when `ids` has one more axis."""
        if ids.dim() == self.logits.dim():
            return torch.exp(self.logits.gather(-1, ids) - self.log_normaliser.unsqueeze(-1))
        return torch.exp(self.log_at(ids))

    def log_at(self, ids: Tensor) -> Tensor:
        """log x_hat at one id per position; -inf where it is impossible."""
        return self.logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - self.log_normaliser

    def probs(self) -> Tensor:
        return torch.exp(self.logits - self.log_normaliser.unsqueeze(-1))

    def mean(self, rows: Tensor) -> Tensor:
        """The mean of `rows` (K, d) under x_hat, in the precision of `rows`; a few positions at a time on a CPU."""
        if self.logits.requires_grad or self.logits.device.type != "cpu":
            return torch.softmax(self.logits, dim=-1).to(rows.dtype) @ rows
        few = max(1, _DRAW_ELEMENTS // self.size)
        flat = self.logits.flatten(0, -2).split(few)
        means = [torch.softmax(part, dim=-1).to(rows.dtype) @ rows for part in flat]
        return torch.cat(means).view(*self.logits.shape[:-1], rows.shape[-1])

    def draw(self, where: Tensor, u: Tensor, otherwise: Tensor) -> Tensor:
        """`otherwise` with ids drawn from x_hat by inverse CDF at `u` where `where` holds.

        All three have the leading shape of the logits, or one more axis for several draws per position. On a CPU only
        positions that are drawn cost anything; elsewhere all are drawn, for finding them would wait for the device.
        """
        if self.logits.device.type != "cpu":
            return torch.where(where, categorical(torch.softmax(self.logits, dim=-1), u), otherwise)
        rows = where if where.dim() < self.logits.dim() else where.any(-1)
        chosen = rows.flatten().nonzero().squeeze(-1)
        result = otherwise.clone()
        if not len(chosen):
            return result
        logits, few = self.logits.flatten(0, -2), max(1, _DRAW_ELEMENTS // self.size)
        numbers = u[rows]
        parts = zip(chosen.split(few), numbers.split(few))
        ids = torch.cat([categorical(torch.softmax(logits[part], dim=-1), v) for part, v in parts])
        result[where] = ids if rows is where else ids[where[rows]]
        return result

    def draw_all(self, u: Tensor) -> Tensor:
        """One id per position."""
        return self.draw(torch.ones_like(u, dtype=torch.bool), u, torch.zeros_like(u, dtype=torch.long))


class GuidedPrediction(Prediction):
    """What the network says with labels and without, combined with a strength: its logits are the guided ones."""

    def __init__(self, conditional: Prediction, unconditional: Prediction, strength: float) -> None:
        self.projection = None
        self.conditional, self.unconditional, self.strength = conditional, unconditional, strength

    @functools.cached_property
    def logits(self) -> Tensor:
        return classifier_free(self.conditional.logits, self.unconditional.logits, self.strength)

    @property
    def size(self) -> int:
        return self.conditional.size


def log_normaliser(logits: Tensor) -> Tensor:
    """logsumexp over the last axis without a copy of all logits, unless a gradient is needed."""
    if logits.requires_grad or logits.device.type != "cpu" or logits.numel() <= _BLOCK_ELEMENTS:
        return torch.logsumexp(logits, dim=-1)
    few = max(1, _BLOCK_ELEMENTS // logits.shape[-1]) * torch.get_num_threads()
    parts = [torch.logsumexp(part, dim=-1) for part in logits.flatten(0, -2).split(few)]
    return torch.cat(parts).view(logits.shape[:-1])
