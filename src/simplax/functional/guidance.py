"""Guidance of discrete diffusion (Schiff et al. 2025) on plain tensors: laws of single tokens tilted by a label."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def classifier_free(conditional: Tensor, unconditional: Tensor, gamma: float) -> Tensor:
    """log of p_c^gamma p_u^(1 - gamma), renormalised over the last axis; both may be logits.

    gamma = 0 is the law without the label, 1 the one with it, and beyond that the label counts more than it should.
    What either law excludes stays impossible; where nothing is left, the law with the label holds.
    """
    check_strength(gamma)
    if gamma in (0, 1):
        return (conditional if gamma else unconditional).log_softmax(-1)
    given, free = conditional.log_softmax(-1), unconditional.log_softmax(-1)
    excluded = given.isneginf() | free.isneginf()
    mixed = gamma * given + (1 - gamma) * torch.where(excluded, 0.0, free)
    mixed = mixed.masked_fill(excluded, -torch.inf)
    return torch.where(excluded.all(-1, keepdim=True), given, mixed).log_softmax(-1)


def classifier_based(log_probs: Tensor, log_classifier: Tensor, gamma: float) -> Tensor:
    """log of p(z) p(y | z)^gamma, renormalised over the last axis; `log_classifier` counts up to a constant there."""
    check_strength(gamma)
    return torch.where(log_probs.isneginf(), -torch.inf, log_probs + gamma * log_classifier).log_softmax(-1)


def check_strength(gamma: float) -> None:
    if not 0 <= gamma < math.inf:
        raise ValueError(f"the strength of guidance must not be negative, and finite, got {gamma}")
