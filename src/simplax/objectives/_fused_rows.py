"""Objectives of single positions, with their derivatives in closed form, on a block of logits at a time.

A block is a few rows of K numbers that fit a processor's cache: passes over it are cheap, passes over all logits of a
batch are not. What does not depend on the logits is computed for all positions beforehand, and values are put together
for all of them afterwards, so that a block needs few operations. Per-position arithmetic is done in float64.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from simplax.functional._stable import expm1_minus


class Rows(abc.ABC):
    """One objective for each of n positions; every tensor of a subclass has n as its first axis."""

    def __getitem__(self, rows: slice) -> Rows:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{k: v[rows] if isinstance(v, Tensor) else v for k, v in parts.items()})

    @abc.abstractmethod
    def evaluate(self, logits: Tensor, differentiate: bool) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Statistics of `logits` (m, K), which may be overwritten, and the derivative (m, K) if requested."""

    @abc.abstractmethod
    def values(self, *statistics: Tensor) -> Tensor:
        """The objective (n,) from the statistics of all positions."""


@dataclass(frozen=True)
class CrossEntropy(Rows):
    """-weight log x_hat[x]; `weight` is (n, 1)."""

    x: Tensor
    weight: Tensor

    def evaluate(self, logits: Tensor, differentiate: bool) -> tuple[tuple[Tensor, ...], Tensor | None]:
        at_x, top = logits.gather(-1, self.x.unsqueeze(-1)), logits.amax(-1, keepdim=True)
        mass = logits.sub_(top).exp_()
        total = mass.sum(-1, keepdim=True)
        statistics = (at_x, top, total)
        if not differentiate:
            return statistics, None
        weight = self.weight.to(logits.dtype)
        return statistics, mass.mul_(weight / total).scatter_add_(-1, self.x.unsqueeze(-1), -weight)

    def values(self, *statistics: Tensor) -> Tensor:
        at_x, top, total = (s.double() for s in statistics)
        return (self.weight * (top - at_x + total.log())).squeeze(-1)


@dataclass(frozen=True)
class Bridge(Rows):
    """`rate` times the restored density of the relaxed bridge (eq. 17 of the paper) under a uniform prior.

    The state is w = sum_j weights_j e_{ids_j} + base pi; `base` is None when it has no such part. With
    y = p_hat / pi = K alpha x_hat + 1 - alpha, y_bar = p / pi and f = 1/y - 1/y_bar + log(y / y_bar) / y_bar, category
    by category, the density is <w, f> + <w, 1/y_bar> KL(p || p_hat), which needs the sums of log y, y - 1 and 1/y only.

    Made by `Bridge.of`. `ids` begin with the clean token, whose own weight is zero. Other tensors are (n, 1) columns or
    (n, J): a state's `leave` is <w, 1/y_bar>. By x_hat the derivative is, up to a constant that cancels, a polynomial
    `first` v + `second` v^2 in v = 1 - 1/y on all categories (which keeps its digits near t = 1, where all y are close
    to one) and (`linear` - `square` / y) / y more at the `ids`.
    """

    size: int
    ids: Tensor
    weights: Tensor
    base: Tensor | None
    rate: Tensor
    gain: Tensor
    a: Tensor
    b: Tensor
    leave: Tensor
    first: Tensor
    second: Tensor | None
    linear: Tensor
    square: Tensor

    @staticmethod
    def of(
        size: int, x: Tensor, ids: Tensor, weights: Tensor, base: Tensor | None, alpha: Tensor, rate: Tensor
    ) -> Bridge:
        """From ids (n,), (n, J) and float64 numbers (n, J), (n, 1)."""
        rate = rate.masked_fill(alpha == 0, 0.0)  # the density vanishes there faster than any rate grows
        a, b, gain = 1 + (size - 1) * alpha, 1 - alpha, size * alpha
        y_bar = torch.where(ids == x.unsqueeze(-1), a, b)
        leave = (weights / y_bar).sum(-1, keepdim=True)
        if base is not None:
            leave = leave + base * ((size - 1) / b + 1 / a) / size
        scale = rate * alpha  # times K, which cancels against pi
        first, at_x, second = leave * b, -leave * gain, None
        if base is not None:
            first, at_x = first - base / b + 2 * base, at_x + base * (1 / a - 1 / b)
            second = -scale * base
        linear = torch.cat([at_x, size * weights / y_bar], dim=-1)
        square = torch.nn.functional.pad(size * weights, (1, 0))
        ids = torch.cat([x.unsqueeze(-1), ids], dim=-1)
        weights = torch.nn.functional.pad(weights, (1, 0))
        scaled = (scale * first, second, scale * linear, scale * square)
        return Bridge(size, ids, weights, base, rate, gain, a, b, leave, *scaled)

    def evaluate(self, logits: Tensor, differentiate: bool) -> tuple[tuple[Tensor, ...], Tensor | None]:
        # products with a (m, 1) column run at full speed as mul and add, and many times slower as addcmul
        x_hat = torch.softmax(logits, dim=-1)
        y = torch.mul(x_hat, self.gain.to(x_hat.dtype), out=logits)
        y.add_(self.b.to(y.dtype))
        spare = torch.log(y)
        log_sum = spare.sum(-1, keepdim=True)
        excess = torch.sub(y, 1, out=spare)
        at_ids = x_hat.gather(-1, self.ids).double()
        statistics: tuple[Tensor, ...] = (at_ids, log_sum, excess.sum(-1, keepdim=True))
        if differentiate or self.base is not None:
            deficit = excess.div_(y)  # 1 - 1/y
            statistics = (*statistics, deficit.sum(-1, keepdim=True)) if self.base is not None else statistics
        return statistics, self._derivative(x_hat, deficit, at_ids, spare=y) if differentiate else None

    def _derivative(self, x_hat: Tensor, deficit: Tensor, at_ids: Tensor, spare: Tensor) -> Tensor:
        """x_hat (g - <x_hat, g>) with g the derivative by x_hat, in the place of `deficit`."""
        first = self.first.to(x_hat.dtype)
        if self.second is None:
            gradient = deficit.mul_(first)
        else:
            gradient = deficit.mul_(torch.mul(deficit, self.second.to(x_hat.dtype), out=spare).add_(first))
        inverse = torch.addcmul(self.b, at_ids, self.gain).reciprocal_()
        sparse = torch.addcmul(self.linear, self.square, inverse, value=-1).mul_(inverse).mul_(at_ids)
        mean = torch.mul(gradient, x_hat, out=spare).sum(-1, keepdim=True)
        mean += sparse.sum(-1, keepdim=True).to(mean.dtype)
        return gradient.sub_(mean).mul_(x_hat).scatter_add_(-1, self.ids, sparse.to(x_hat.dtype))

    def values(self, *statistics: Tensor) -> Tensor:
        """Sums over K hold the clean token like any other; what is special about it is put right here."""
        at_ids, log_sum, excess, *deficit = (s.double() for s in statistics)
        a, b, others = self.a, self.b, self.size - 1
        y, y_bar = b + self.gain * at_ids, torch.where(self.ids == self.ids[:, :1], a, b)
        f = expm1_minus(y_bar.log() - y.log()) / y_bar
        y_x = y[:, :1]
        log_ratio = (
            log_sum - y_x.log() - others * b.log()
        )  # sum of log(y / y_bar) over all but the clean token
        # p_hat - p sums to zero but for rounding; with it in place, rounding of y enters at second order only
        divergence = (excess - b * log_ratio - a * (y_x.log() - a.log())) / self.size
        density = (self.weights * f).sum(-1, keepdim=True) + self.leave * divergence
        if self.base is not None:
            inverse = self.size - deficit[0] - 1 / y_x - others / b  # sum of 1/y - 1/y_bar over the same
            density = density + self.base * (inverse + log_ratio / b + f[:, :1]) / self.size
        return (self.rate * density).squeeze(-1)
