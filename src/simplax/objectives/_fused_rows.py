"""Objectives of single positions, with their derivatives in closed form, on a block of logits at a time.

A block is a few rows of K numbers that fit a processor's cache: passes over it are cheap, passes over all logits of a
batch are not. Per-position arithmetic is done in float64, which costs nothing beside one pass over K.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from simplax.functional._stable import expm1_minus


class Rows(abc.ABC):
    """One objective for each of n positions; every tensor of a subclass has n as its first axis."""

    def __getitem__(self, rows: slice | Tensor) -> Rows:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{k: v[rows] if isinstance(v, Tensor) else v for k, v in parts.items()})

    @abc.abstractmethod
    def evaluate(self, logits: Tensor, differentiate: bool) -> tuple[Tensor, Tensor | None]:
        """Values (m,) at `logits` (m, K), which may be overwritten, and their derivative (m, K) if asked for."""


@dataclass(frozen=True)
class CrossEntropy(Rows):
    """-weight log x_hat[x]."""

    x: Tensor
    weight: Tensor

    def evaluate(self, logits: Tensor, differentiate: bool) -> tuple[Tensor, Tensor | None]:
        ids = self.x.unsqueeze(-1)
        at_x = logits.gather(-1, ids).squeeze(-1).double()
        x_hat, log_normaliser = _softmax(logits)
        values = self.weight * (log_normaliser - at_x)
        if not differentiate:
            return values, None
        weight = self.weight.to(logits.dtype).unsqueeze(-1)
        return values, x_hat.mul_(weight).scatter_add_(-1, ids, -weight)


@dataclass(frozen=True)
class Bridge(Rows):
    """`rate` times the restored density of the relaxed bridge (eq. 16 of the paper) under a uniform prior.

    The state is w = sum_j weights_j e_{ids_j} + base pi; `base` is None when it has no such part. With
    y = p_hat / pi = K alpha x_hat + 1 - alpha, y_bar = p / pi and f = 1/y - 1/y_bar + log(y / y_bar) / y_bar, category
    by category, the density is <w, f> + <w, 1/y_bar> KL(p || p_hat), which needs the sums of log y, y - 1 and 1/y only.
    """

    x: Tensor
    ids: Tensor
    weights: Tensor
    base: Tensor | None
    alpha: Tensor
    rate: Tensor

    def evaluate(self, logits: Tensor, differentiate: bool) -> tuple[Tensor, Tensor | None]:
        size = logits.shape[-1]
        x_hat, _ = _softmax(logits)
        y = x_hat * _column(size * self.alpha, logits)
        y.add_(_column(1 - self.alpha, logits))
        sums = _Sums(y.log().sum(-1).double())
        excess = y - 1
        sums.excess = excess.sum(-1).double()
        if differentiate or self.base is not None:
            excess.div_(y)  # 1 - 1/y
            sums.deficit = excess.sum(-1).double() if self.base is not None else None
        at_ids = x_hat.gather(-1, torch.cat([self.x.unsqueeze(-1), self.ids], dim=-1)).double()
        terms = _Terms(self, at_ids, size)
        values = self.rate * terms.density(sums)
        return values, terms.derivative(x_hat, excess) if differentiate else None


@dataclass
class _Sums:
    """Sums over the categories of log y, y - 1 and 1 - 1/y, each (m,)."""

    log: Tensor
    excess: Tensor | None = None
    deficit: Tensor | None = None


class _Terms:
    """The per-position part of a bridge: everything at the clean token and at the ids of the state."""

    def __init__(self, rows: Bridge, at_ids: Tensor, size: int) -> None:
        self.rows, self.size = rows, size
        self.a, self.b = 1 + (size - 1) * rows.alpha, 1 - rows.alpha  # y_bar at the clean token and elsewhere
        self.x_hat_x, self.x_hat = at_ids[:, 0], at_ids[:, 1:]
        self.y_x = size * rows.alpha * self.x_hat_x + self.b
        self.y = (size * rows.alpha).unsqueeze(-1) * self.x_hat + self.b.unsqueeze(-1)
        on_x = rows.ids == rows.x.unsqueeze(-1)
        self.y_bar = torch.where(on_x, self.a.unsqueeze(-1), self.b.unsqueeze(-1))
        self.leave = (rows.weights / self.y_bar).sum(-1)  # <w, 1 / y_bar>
        if rows.base is not None:
            self.leave = self.leave + rows.base * ((size - 1) / self.b + 1 / self.a) / size

    def density(self, sums: _Sums) -> Tensor:
        """<w, f> + <w, 1/y_bar> KL, where sums over K leave the clean token to be treated on its own."""
        assert sums.excess is not None
        others, log_b, log_y_x = self.size - 1, torch.log1p(-self.rows.alpha), self.y_x.log()
        log_ratio = (
            sums.log - log_y_x - others * log_b
        )  # sum of log(y / y_bar) over all categories but the clean
        # p_hat - p sums to zero but for rounding; with it in place, rounding of y enters at second order only
        divergence = (sums.excess - self.b * log_ratio - self.a * (log_y_x - self.a.log())) / self.size
        at_ids = (self.rows.weights * _f(self.y, self.y_bar)).sum(-1)
        if self.rows.base is not None:
            assert sums.deficit is not None
            inverse = self.size - sums.deficit - 1 / self.y_x - others / self.b
            total = inverse + log_ratio / self.b + _f(self.y_x, self.a)
            at_ids = at_ids + self.rows.base * total / self.size
        return at_ids + self.leave * divergence

    def derivative(self, x_hat: Tensor, deficit: Tensor) -> Tensor:
        """x_hat (g - <x_hat, g>) with g the derivative by x_hat; `deficit` = 1 - 1/y is overwritten.

        On all categories g is a polynomial in the deficit up to a constant, which cancels: that keeps its digits near
        t = 1, where all y are close to one.
        """
        rows, size = self.rows, self.size
        scale = rows.rate * rows.alpha  # d y / d x_hat is size * alpha, and the size cancels below
        first = self.leave * self.b
        at_x = -self.leave * size * rows.alpha / self.y_x
        if rows.base is None:
            deficit.mul_(_column(scale * first, x_hat))
        else:
            first = first - rows.base / self.b + 2 * rows.base
            at_x = at_x + rows.base * (1 / self.a - 1 / self.b) / self.y_x
            slope = deficit * _column(-scale * rows.base, x_hat)
            deficit.mul_(slope.add_(_column(scale * first, x_hat)))
        at_ids = size * rows.weights / self.y * (1 / self.y_bar - 1 / self.y)
        sparse = torch.cat([(self.x_hat_x * at_x).unsqueeze(-1), self.x_hat * at_ids], dim=-1)
        sparse = scale.unsqueeze(-1) * sparse
        flow = deficit.mul_(x_hat)
        mean = flow.sum(-1, keepdim=True) + sparse.sum(-1, keepdim=True).to(flow.dtype)
        ids = torch.cat([rows.x.unsqueeze(-1), rows.ids], dim=-1)
        return flow.addcmul_(x_hat, mean, value=-1).scatter_add_(-1, ids, sparse.to(flow.dtype))


def _f(y: Tensor, y_bar: Tensor) -> Tensor:
    """1/y - 1/y_bar + log(y / y_bar) / y_bar, never negative."""
    return expm1_minus(y_bar.log() - y.log()) / y_bar


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax in place of the logits, and their log-normalisers (m,) in float64."""
    top = logits.amax(-1, keepdim=True)
    weights = logits.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    return weights.mul_(1 / total), (top.double() + total.double().log()).squeeze(-1)


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype).unsqueeze(-1)
