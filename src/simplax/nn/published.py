"""Weights published for MDLM, UDLM, Duo and their autoregressive baselines, in the names of our denoiser.

The names are the same: a published key is ours with a prefix (`backbone.` in Lightning and Hugging Face
files, `_orig_mod.` after compilation). What a checkpoint holds besides the backbone is left out. Published
EMA states are lists without names, in the order in which the parameters were registered, which is also ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from torch import Tensor

from simplax.errors import UserError
from simplax.nn.denoiser import Denoiser

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


def shadow_state(denoiser: Denoiser, shadow_params: Sequence[Tensor]) -> dict[str, Tensor]:
    """Names for the tensors of a published EMA list, checked shape by shape."""
    parameters = list(denoiser.named_parameters())
    theirs = [tuple(shadow.shape) for shadow in shadow_params]
    if theirs != [tuple(parameter.shape) for _, parameter in parameters]:
        raise UserError(
            f"these {len(theirs)} EMA tensors are not those of this denoiser with its {len(parameters)}; "
            "build it with the checkpoint's vocabulary size and architecture."
        )
    return {name: shadow for (name, _), shadow in zip(parameters, shadow_params)}


def load_published(denoiser: Denoiser, state: Mapping[str, Tensor]) -> None:
    """Load a published state dict; options of ours that it does not know keep their neutral start."""
    ours = denoiser.state_dict()
    theirs = backbone_state(state)
    optional = {
        "rotary_emb.inv_freq",
        "given_embed.weight",
        "self_condition_map.weight",
        "carry_norm.weight",
        "carry_norm.bias",
        "relation_bias.weight",
    }
    missing = sorted(ours.keys() - theirs.keys() - optional)
    unknown = sorted(theirs.keys() - ours.keys())
    wrong = sorted(key for key in ours.keys() & theirs.keys() if ours[key].shape != theirs[key].shape)
    for kind, names in {"missing": missing, "unknown": unknown, "of another shape": wrong}.items():
        if names:
            raise UserError(
                f"this checkpoint does not fit the denoiser: {len(names)} tensors {kind}, such as {names[0]}."
            )
    denoiser.load_state_dict(theirs, strict=False)
