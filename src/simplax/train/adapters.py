"""Runs that train adapters: the frozen weights are kept once, beside the checkpoints, which hold the rest.

A run directory is whole by itself: the model that it started from may train on, move or go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from simplax.errors import UserError
from simplax.io.files import sha256, write_tensors
from simplax.nn import lora
from simplax.train import checkpoint as checkpoints

BASE = "base.safetensors"


def trained(denoiser: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries of a state that a checkpoint holds: all but the weights that adapters leave as they are."""
    left_out = lora.frozen(denoiser)
    return {name: value for name, value in state.items() if name not in left_out}


def frozen_places(denoiser: nn.Module) -> dict[str, Tensor]:
    """The frozen weights by the names they have without adapters."""
    left_out = lora.frozen(denoiser)
    return {lora.plain(name): value for name, value in denoiser.state_dict().items() if name in left_out}


def start_places(denoiser: nn.Module) -> dict[str, Tensor]:
    """What another model's weights fill: everything but the adapters."""
    state = denoiser.state_dict().items()
    return {lora.plain(name): value for name, value in state if not lora.is_adapter(name)}


def keep_base(run: Path, denoiser: nn.Module) -> dict[str, Any]:
    """Write the frozen weights; what a checkpoint must know to be used with them."""
    try:
        weights = {name: value.detach().cpu() for name, value in frozen_places(denoiser).items()}
        write_tensors(run / BASE, weights)
    except OSError as error:
        raise UserError(
            f"could not write {run / BASE} ({error.strerror}): make room, then start again."
        ) from error
    return {"sha256": sha256(run / BASE), "scale": lora.scale_of(denoiser)}


def read_base(run: Path, known: Mapping[str, Any]) -> dict[str, Tensor]:
    """The frozen weights of a run, if they are still those that its adapters were trained on."""
    file = run / BASE
    if not file.is_file():
        raise UserError(f"{file} is missing: without it the adapters in {run} are of no use; restore it.")
    if sha256(file) != known.get("sha256"):
        raise UserError(f"{file} is damaged or was changed: the adapters in {run} belong to other weights.")
    return checkpoints.load_tensors(file)


def whole(path: Path, state: Mapping[str, Any], *states: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """States of the checkpoint `path` as those of one plain network, adapters merged if it has any."""
    known = state["progress"].get("adapters")
    if known is None:
        yield from states
        return
    base = read_base(path.resolve().parent.parent, known)
    for tensors in states:
        yield lora.merged(base, tensors, float(known["scale"]))
