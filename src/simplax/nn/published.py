"""Weights published for MDLM, UDLM, Duo and their autoregressive baselines, in the names of our denoiser.

The names are the same: a published key is ours with a prefix (`backbone.` in Lightning and Hugging Face
files, `_orig_mod.` after compilation). What a checkpoint holds besides the backbone is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

PREFIXES = ("backbone.", "_orig_mod.")
T = TypeVar("T")


def backbone_state(state: Mapping[str, T]) -> dict[str, T]:
    """The entries of a published state dict that belong to the backbone, under our names."""
    if any(key.startswith(PREFIXES[0]) for key in state):
        state = {key: value for key, value in state.items() if key.startswith(PREFIXES[0])}
    return {_strip(key): value for key, value in state.items()}


def _strip(key: str) -> str:
    while key.startswith(PREFIXES):
        key = key.split(".", 1)[1]
    return key
