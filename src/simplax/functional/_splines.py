"""The two splines that tabulated noise schedules need: monotone interpolation and a smooth regression."""

from __future__ import annotations

import torch
from torch import Tensor

RIDGE = 1e-3
"""Penalty on the coefficients of the regression, not on its mean."""


def pchip(x: Tensor, y: Tensor, at: Tensor, slopes: Tensor | None = None) -> Tensor:
    """Monotone piecewise cubic through the points (x, y), x increasing; beyond them the end cubics go on.

    `slopes` are those of `pchip_slopes`, if somebody has them already.
    """
    left, width, rise, start, end, u = _cell(x, y, at, slopes)
    bend, twist = 3 * rise - 2 * start - end, start + end - 2 * rise
    del width
    return left + u * (start + u * (bend + u * twist))


def pchip_derivative(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    """The derivative of `pchip` at `at`."""
    _, width, rise, start, end, u = _cell(x, y, at)
    bend, twist = 3 * rise - 2 * start - end, start + end - 2 * rise
    return (start + u * (2 * bend + 3 * u * twist)) / width


def _cell(
    x: Tensor, y: Tensor, at: Tensor, slopes: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Of each point's cell: value at its left end, width, rise, end slopes times the width, place in [0, 1]."""
    slopes = pchip_slopes(x, y) if slopes is None else slopes
    k = (torch.searchsorted(x, at.contiguous(), right=True) - 1).clamp(0, len(x) - 2)
    width = x[k + 1] - x[k]
    u = (at - x[k]) / width
    return y[k], width, y[k + 1] - y[k], slopes[k] * width, slopes[k + 1] * width, u


def pchip_slopes(x: Tensor, y: Tensor) -> Tensor:
    """Derivatives at the points: weighted harmonic means of the secants (Fritsch and Butland 1984)."""
    h = x.diff()
    m = y.diff() / h
    before, after = m[:-1], m[1:]
    w_before, w_after = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    monotone = before * after > 0
    safe_before, safe_after = torch.where(monotone, before, 1.0), torch.where(monotone, after, 1.0)
    inner = torch.where(monotone, (w_before + w_after) / (w_before / safe_before + w_after / safe_after), 0.0)
    return torch.cat([_end(h[0], h[1], m[0], m[1]), inner, _end(h[-1], h[-2], m[-1], m[-2])])


def _end(h: Tensor, h_next: Tensor, m: Tensor, m_next: Tensor) -> Tensor:
    """The slope at an end by three points, limited so that the cubic stays monotone; shape (1,)."""
    slope = ((2 * h + h_next) * m - h * m_next) / (h + h_next)
    steep = (m * m_next < 0) & (slope.abs() > 3 * m.abs())
    slope = torch.where(steep, 3 * m, slope)
    return torch.where(slope * m > 0, slope, 0.0).reshape(1)


def smooth(x: Tensor, y: Tensor, at: Tensor, knots: int) -> Tensor:
    """Ridge regression of y on cubic B-splines with `knots` even knots over the range of x, evaluated at `at`."""
    low, high = x.min(), x.max()
    basis = _cubic_basis(x, low, high, knots)
    mean, offset = basis.mean(0), y.mean()
    centred = basis - mean
    gram = centred.T @ centred + RIDGE * torch.eye(basis.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.linalg.solve(gram, centred.T @ (y - offset))
    return offset + (_cubic_basis(at, low, high, knots) - mean) @ weights


def _cubic_basis(x: Tensor, low: Tensor, high: Tensor, knots: int) -> Tensor:
    """Values (n, knots + 2) of the B-splines; outside [low, high] the cubics of the end cells go on."""
    place = (x - low) / (high - low) * (knots - 1)
    cell = place.long().clamp(0, knots - 2)
    u = place - cell
    pieces = ((1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3)
    values = torch.stack(pieces, dim=-1) / 6
    columns = cell.unsqueeze(-1) + torch.arange(4, device=x.device)
    return torch.zeros(len(x), knots + 2, dtype=x.dtype, device=x.device).scatter(1, columns, values)
