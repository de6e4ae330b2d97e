"""Low-rank adapters kept apart from the model they belong to: a directory in peft's format, with our configuration.

adapter_model.safetensors   A and B of every adapted layer, under peft's names
adapter_config.json         for peft alone; nothing here reads it
config.json, manifest.json  ours; the manifest says which model the adapters belong to, and its digest
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simplax.config.run import RunConfig, to_json
from simplax.errors import UserError
from simplax.io.files import sha256, whole_directory, write_json, write_tensors
from simplax.io.manifest import environment
from simplax.nn import lora
from simplax.pretrained.stored import ADAPTER, CONFIG, MANIFEST, Stored, manifest
from simplax.train.adapters import read_base
from simplax.train.checkpoint import load_tensors

ADAPTER_CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."


def export_adapter(stored: Stored, path: str | Path) -> Path:
    """Write the adapters of a run as a directory of their own; it needs the model they were trained for to be used."""
    if stored.adapters is None or stored.config.lora is None:
        raise UserError(f"{stored.home} was not trained with adapters: leave out --adapter.")
    if (stored.home / ADAPTER).is_file():
        raise UserError(
            f"{stored.home} holds adapters alone already: copy it, or leave out --adapter to merge them."
        )
    added = {_peft_name(name): value for name, value in load_tensors(stored.file).items()}
    base = read_base(stored.home, stored.adapters)
    origin = (stored.started_from or {}).get("path")
    path = Path(path)
    with whole_directory(path) as folder:
        write_tensors(folder / ADAPTER, added, {"format": "pt"})
        write_json(folder / ADAPTER_CONFIG, _for_peft(stored.config.lora, added, origin))
        write_json(folder / CONFIG, to_json(stored.config))
        tokenizer = stored.config.task.tokenizer(stored.home)
        if tokenizer is not None:
            tokenizer.save(folder)
        model = {
            "name": stored.config.name,
            "weights": stored.kind,
            "sha256": sha256(folder / ADAPTER),
            "started_from": stored.started_from,
            "base": {"path": origin, "digest": digest(base)},
        }
        write_json(folder / MANIFEST, {**environment(), "model": model})
    return path


def on_base(stored: Stored, config: RunConfig, base: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the model `base` with exported adapters merged, if they are that model's."""
    settings, own = stored.config.lora, stored.config
    added = {_our_name(name): value for name, value in load_tensors(stored.file).items()}
    said = manifest(stored.home).get("base")
    expected = said.get("digest") if isinstance(said, dict) else None
    sizes = [(each.architecture, each.task.vocab_size, each.task.length) for each in (own, config)]
    frozen = {name: value for name, value in base.items() if name not in added}
    if settings is None or sizes[0] != sizes[1] or (expected is not None and digest(frozen) != expected):
        raise UserError(f"{stored.home} holds adapters of another model: name the one they were trained for.")
    return lora.merged(base, added, settings.scale)


def base_of(folder: Path) -> str:
    """The model that exported adapters belong to, as it was called when they were trained."""
    said = manifest(folder).get("base")
    path = said.get("path") if isinstance(said, dict) else None
    if not isinstance(path, str):
        raise UserError(f"{folder} does not say which model its adapters belong to: name it as the base.")
    return path


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Of names, shapes and numbers, whatever file they are in."""
    summed = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        summed.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        summed.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return summed.hexdigest()


def _peft_name(name: str) -> str:
    return _PREFIX + name.replace(".default.weight", ".weight")


def _our_name(name: str) -> str:
    name = name.removeprefix(_PREFIX)
    for part in (".lora_A", ".lora_B"):
        if name.endswith(f"{part}.weight"):
            return name.removesuffix(".weight") + ".default.weight"
    return name


def _for_peft(settings: lora.Lora, added: Mapping[str, Tensor], origin: str | None) -> dict[str, Any]:
    layers = sorted({_our_name(name).partition(".lora_")[0] for name in added if ".lora_" in name})
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": origin,
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": settings.dropout,
        "target_modules": lora.exactly(layers),
        "bias": "none",
        "inference_mode": True,
    }
