"""The files in which other projects keep a model: a Lightning checkpoint, or a directory of Hugging Face."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from simplax.errors import UserError
from simplax.nn.published import backbone_state
from simplax.pretrained.importing.archive import Archive, load_bin, state_dict
from simplax.pretrained.importing.records import TensorReference
from simplax.pretrained.importing.settings import Settings, read_json
from simplax.pretrained.importing.vocabulary import Vocabulary, read_vocabulary
from simplax.train.checkpoint import load_tensors

Choice = Literal["auto", "ema", "raw"]
_BUFFER = "rotary_emb.inv_freq"  # in the state dict and not among the averaged parameters


@dataclass(frozen=True)
class Found:
    """A model as its project stored it: tensors of the backbone by name, `ema` or `raw`, and what else is known."""

    tensors: dict[str, Tensor]
    kind: str
    settings: Settings
    lightning: bool
    vocabulary: Vocabulary | None = None
    ema_decay: float | None = None


def read(path: Path, weights: Choice = "auto") -> Found:
    """The model in a `.ckpt` file or in a directory with config.json and its weights."""
    if path.is_dir():
        return _directory(path, weights)
    if path.suffix == ".safetensors" or path.name.endswith(".bin"):
        raise UserError(
            f"{path} is only a part of a model: give the directory it is in, with its config.json."
        )
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is neither a file nor a directory: give a .ckpt file or a model directory.")
    return _lightning(path, weights)


def _directory(path: Path, weights: Choice) -> Found:
    if not (path / "config.json").is_file():
        raise UserError(
            f"{path} holds no config.json: give a directory of Hugging Face, or a Lightning .ckpt file."
        )
    settings = read_json(path / "config.json")
    if weights == "raw":
        raise UserError(f"{path} holds averaged weights only: leave out --weights raw.")
    files = {"model.safetensors": load_tensors, "pytorch_model.bin": load_bin}
    for name, load in files.items():
        if (path / name).is_file():
            return Found(_floats(backbone_state(load(path / name)), path / name), "ema", settings, False)
    raise UserError(f"{path} holds no weights: it has neither {' nor '.join(files)}.")


def _lightning(path: Path, weights: Choice) -> Found:
    archive = Archive(path)
    content = archive.content()
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise UserError(f"{path} is not a Lightning checkpoint: it has no state_dict.")
    references = backbone_state(state_dict(content["state_dict"], path))
    hyper = content.get("hyper_parameters")
    hyper = hyper if isinstance(hyper, dict) else {}
    averages, decay = _averages(content.get("ema"))
    kind = ("ema" if averages is not None else "raw") if weights == "auto" else weights
    if kind == "ema":
        if averages is None:
            raise UserError(f"{path} holds no averaged weights: say --weights raw.")
        references = _named(references, averages, path)
    tensors = _floats(archive.tensors(references), path)
    settings = Settings(hyper.get("config"), str(path))
    return Found(tensors, kind, settings, True, read_vocabulary(hyper.get("tokenizer")), decay)


def _averages(ema: Any) -> tuple[list[TensorReference] | None, float | None]:
    """The averaged parameters, a list without names, and their decay."""
    if not isinstance(ema, dict) or not isinstance(ema.get("shadow_params"), list):
        return None, None
    shadow = [each for each in ema["shadow_params"] if isinstance(each, TensorReference)]
    decay = ema.get("decay")
    good = isinstance(decay, float) and 0.0 <= decay < 1.0
    return (shadow if len(shadow) == len(ema["shadow_params"]) else None), (decay if good else None)


def _named(
    references: dict[str, TensorReference], averages: list[TensorReference], path: Path
) -> dict[str, TensorReference]:
    """Averages under the names of the parameters: they were listed in the order of the state dict, buffers left out."""
    names = [name for name in references if name != _BUFFER]
    shapes = [references[name].shape for name in names]
    if [each.shape for each in averages] != shapes:
        raise UserError(
            f"{path} lists {len(averages)} averaged tensors that are not those of its {len(names)} parameters: "
            "say --weights raw."
        )
    return {**references, **dict(zip(names, averages))}


def _floats(tensors: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise UserError(
                f"{path} holds {str(tensor.dtype)[6:]} numbers in {name[:80]!r}: weights are fractions."
            )
    return {name: tensor.float() for name, tensor in tensors.items()}
