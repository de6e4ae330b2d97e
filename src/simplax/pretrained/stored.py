"""Where the files of a trained model are: in a run, in one of its checkpoints, or in an exported directory."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from simplax.config.run import RunConfig, from_json, load, to_json
from simplax.errors import UserError
from simplax.io.files import sha256, write_json
from simplax.methods.distillation import without_teacher
from simplax.nn import lora
from simplax.train import adapters, checkpoint

logger = logging.getLogger(__name__)  # unless a program says otherwise, warnings are a line on stderr

Weights = Literal["auto", "ema", "raw"]
CONFIG, WEIGHTS, MANIFEST = "config.json", checkpoint.WEIGHTS, checkpoint.MANIFEST
ADAPTER = checkpoint.ADAPTER
_FILES: dict[str, str] = {"ema": checkpoint.AVERAGE, "raw": checkpoint.WEIGHTS}


@dataclass(frozen=True)
class Stored:
    """A file of weights, their kind (`ema` or `raw`), their configuration, and the directory a tokenizer would be in.

    `started_from` is what training began with, if that were the weights of another model, `step` how many steps it
    made, where that is known. `adapters` is what the run
    knows of the frozen weights that its adapters belong to; an export of adapters knows nothing, an empty record.
    """

    file: Path
    kind: str
    config: RunConfig
    home: Path
    started_from: dict[str, str] | None = None
    adapters: dict[str, Any] | None = None
    step: int | None = None


def change_config(folder: Path, config: RunConfig) -> None:
    """Give an exported model other settings, defaults of sampling for instance, and its manifest their digest."""
    write_json(folder / CONFIG, to_json(config))
    said = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    digest = {"name": config.name, "config_sha256": sha256(folder / CONFIG)}
    write_json(folder / MANIFEST, {**said, "model": {**said["model"], **digest}})


def at_step(name: str) -> str | Path:
    """`RUN@STEP` is the checkpoint of that step; any other name is left as it is."""
    run, mark, step = name.rpartition("@")
    if mark and step.isdecimal() and Path(run).is_dir():
        return checkpoint.at_step(Path(run), int(step))
    return name


def locate(folder: Path, weights: Weights) -> Stored:
    """The model in `folder`; `auto` are the averaged weights of a run, or those an export has."""
    if weights not in ("auto", *_FILES):
        raise UserError(f"weights must be auto, ema or raw, not {weights!r}.")
    requested = None if weights == "auto" else weights
    if (folder / checkpoint.STATE).is_file():
        checkpoint.verify(folder, only=_FILES.values())
        return _in_checkpoint(folder, requested or "ema", run_of(folder))
    if (folder / "checkpoints").is_dir():
        newest = checkpoint.find(folder, only=_FILES.values())
        if newest is None:
            raise UserError(f"the run {folder} has no checkpoint yet: let it train until the first is saved.")
        return _in_checkpoint(newest, requested or "ema", folder)
    return _exported(folder, requested)


def run_of(folder: Path) -> Path:
    """The run that a checkpoint, such as `RUN/best`, belongs to; any other directory is itself."""
    return folder.resolve().parent.parent if (folder / checkpoint.STATE).is_file() else folder


def _in_checkpoint(folder: Path, kind: str, run: Path) -> Stored:
    """A checkpoint carries its configuration; that of its run comes first, for sampling may have changed since."""
    state = checkpoint.read_state(folder)
    config = load(run / CONFIG) if (run / CONFIG).is_file() else state["config"]
    progress = state["progress"]
    file = checkpoint.part(folder, _FILES[kind])
    began, known = progress.get("started_from"), progress.get("adapters")
    return Stored(file, kind, _config(run, config), run, began, known, progress.get("step"))


def _exported(folder: Path, requested: str | None) -> Stored:
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} is neither a run nor an exported model: it has no {CONFIG}.")
    apart = (folder / ADAPTER).is_file() and not (folder / WEIGHTS).is_file()
    if not apart and not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} holds no weights: it has neither checkpoints nor {WEIGHTS}.")
    said = manifest(folder)
    kind = str(said.get("weights") or requested or "ema")
    if requested is not None and kind != requested:
        raise UserError(f"{folder} was exported with {kind} weights only: leave out --weights {requested}.")
    if said.get("config_sha256") not in (None, sha256(folder / CONFIG)):
        logger.warning(
            "%s is not as it was exported: if nobody changed it on purpose, it is damaged, and the model should be "
            "exported again.",
            folder / CONFIG,
        )
    config = _config(folder, load(folder / CONFIG))
    if apart and config.lora is None:
        raise UserError(f"{folder / CONFIG} does not say what its adapters are: it has no settings of lora.")
    file = folder / (ADAPTER if apart else WEIGHTS)
    return Stored(
        file, kind, config, folder, said.get("started_from"), {} if apart else None, said.get("step")
    )


def manifest(folder: Path) -> dict[str, Any]:
    """What an export's manifest says of the model; nothing without one: it is assumed to be what was requested."""
    try:
        return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["model"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _config(folder: Path, data: Mapping[str, Any]) -> RunConfig:
    try:
        return from_json(data)
    except UserError as error:
        raise UserError(f"{folder} was not written by this version of simplax: {error}") from error


_LONGEST = 1 << 20


def check_size(stored: Stored) -> None:
    """Refuse a configuration whose network could never be in the file of weights, before memory is allocated for it.

    A file that is only truncated passes: what is wrong with it is reported when it is read.
    """
    base = stored.home / adapters.BASE
    held = base if stored.adapters and base.is_file() else stored.file
    most = (1 << 24) + 16 * held.stat().st_size
    shape, task = stored.config.architecture, stored.config.task
    sizes = (
        shape.depth * shape.width**2 * (4 + 2 * shape.mlp_ratio),
        shape.cond_dim,
        task.vocab_size * shape.width,
        task.length if task.length > _LONGEST else 0,
    )
    if max(sizes) > most:
        raise UserError(f"{stored.file} does not fit its {CONFIG}: it is too small for such a network.")


def tensors_of(stored: Stored) -> dict[str, Tensor]:
    """The stored weights, those of adapters merged into the weights that a run keeps beside them."""
    tensors = without_teacher(checkpoint.load_tensors(stored.file))
    if not stored.adapters:
        return tensors
    base = adapters.read_base(stored.home, stored.adapters)
    return lora.merged(base, tensors, float(stored.adapters["scale"]))


def fill(denoiser: nn.Module, stored: Stored, tensors: dict[str, Tensor]) -> None:
    """Put the stored weights into a network, which must have exactly these."""
    expected = denoiser.state_dict()
    for name in [*expected, *tensors]:
        if name not in tensors or name not in expected:
            verb = "lacks" if name not in tensors else "has the unknown entry"
            raise UserError(f"{stored.file} does not fit its {CONFIG}: it {verb} {name}.")
        if tensors[name].shape != expected[name].shape:
            shapes = f"{tuple(tensors[name].shape)} instead of {tuple(expected[name].shape)}"
            raise UserError(f"{stored.file} does not fit its {CONFIG}: {name} has shape {shapes}.")
    checkpoint.check_digest(stored.file)
    denoiser.load_state_dict(tensors)
