"""Low-rank adapters for any module in Python: put in by peft, trained by `simplax.train.train`, merged, saved, loaded.

The command line has them as `simplax train RECIPE --init-from MODEL --lora.rank 8`.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from simplax.errors import UserError
from simplax.io.files import write_tensors
from simplax.nn import lora
from simplax.nn.lora import Lora as Lora
from simplax.nn.lora import adapt as adapt
from simplax.nn.lora import is_adapted as is_adapted
from simplax.train.adapters import start_places
from simplax.train.checkpoint import ADAPTER, load_tensors


def merge(module: nn.Module) -> nn.Module:
    """Add the adapters of `module` to its weights and take them out, in place: a plain, trainable module again."""
    if not is_adapted(module):
        raise UserError("the network has no adapters to merge.")
    added = {name: value for name, value in module.state_dict().items() if lora.is_adapter(name)}
    state = lora.merged(start_places(module), added, lora.scale_of(module))
    for name, part in list(module.named_modules()):
        if hasattr(part, "lora_A"):
            parent, _, own = name.rpartition(".")
            setattr(module.get_submodule(parent), own, part.get_submodule("base_layer"))
    module.load_state_dict(state)
    return module.requires_grad_(True)


def save(module: nn.Module, directory: str | Path) -> Path:
    """Write the adapters of `module`, and nothing else, to a file in `directory`."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        name: value.detach().cpu() for name, value in module.state_dict().items() if lora.is_adapter(name)
    }
    if not state:
        raise UserError("the network has no adapters to save.")
    write_tensors(folder / ADAPTER, state)
    return folder / ADAPTER


def load(module: nn.Module, directory: str | Path) -> nn.Module:
    """Put saved adapters into a module that was adapted with the same settings."""
    file = Path(directory) / ADAPTER
    saved = load_tensors(file)
    expected = {name: value.shape for name, value in module.state_dict().items() if lora.is_adapter(name)}
    if {name: value.shape for name, value in saved.items()} != expected:
        raise UserError(f"{file} holds adapters of another network, or of other settings than this one's.")
    module.load_state_dict(saved, strict=False)
    return module
