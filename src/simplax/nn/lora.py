"""Low-rank adapters (LoRA, Hu et al. 2022) on our denoisers and on any other module, through peft.

An adapted linear layer computes W h + (alpha / rank) B A h. W is frozen, A and B are trained, and B starts at zero, so
that training begins with the network as it was. peft puts the adapters in; merging them is a sum and needs no peft.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from simplax.errors import UserError, nearest

_A, _B, _BASE = ".lora_A.default.weight", ".lora_B.default.weight", ".base_layer."


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters: the network stays as it is, and small additions to its linear layers are trained."""

    rank: int = 8
    """rank of what is added to a layer"""
    alpha: float = 16.0
    """what is added is multiplied by alpha / rank"""
    dropout: float = 0.0
    """share of the adapters' inputs dropped in training"""
    targets: tuple[str, ...] = ()
    """linear layers by name, or by the end of it, such as attn_qkv; those inside the blocks if none"""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise UserError(f"the rank of adapters must be at least 1, got {self.rank}.")
        if not 0.0 <= self.dropout < 1.0:
            raise UserError(f"the dropout of adapters must lie in [0, 1), got {self.dropout}.")

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


def adapt(module: nn.Module, lora: Lora, seed: int = 0) -> nn.Module:
    """Put adapters into `module`, in place; all its other parameters are frozen. Their start depends on `seed` only."""
    if is_adapted(module):
        raise UserError("the network has adapters already: merge them before adding others.")
    names = target_layers(module, lora.targets)
    peft = _peft()
    settings = peft.LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=exactly(names)
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        peft.inject_adapter_in_model(settings, module)
    return module


def _peft() -> Any:
    try:
        return importlib.import_module("peft")
    except ImportError as error:
        raise UserError('low-rank adapters need peft: pip install "simplax[lora]".') from error


def target_layers(module: nn.Module, wanted: Sequence[str] = ()) -> list[str]:
    """The linear layers that are adapted: the wanted ones, or those inside lists of blocks, or all there are.

    The modulation by the time maps one vector per sequence, and is left out unless it is asked for.
    """
    linear = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    for word in wanted:
        if not any(_ends(name, word) for name in linear):
            raise UserError(
                f"there is no linear layer {word!r} to adapt{nearest(word, sorted({_last(n) for n in linear}))}"
            )
    if wanted:
        return [name for name in linear if any(_ends(name, word) for word in wanted)]
    lists = [name for name, part in module.named_modules() if isinstance(part, nn.ModuleList)]
    inside = [name for name in linear if any(name.startswith(f"{each}.") for each in lists)]
    chosen = [name for name in inside if "adaLN" not in name] or linear
    if not chosen:
        raise UserError("the network has no linear layers to adapt.")
    return chosen


def exactly(names: Sequence[str]) -> str:
    """A pattern for peft that fits these layers and no others whose names end alike."""
    return "|".join(re.escape(name) for name in names)


def _ends(name: str, word: str) -> bool:
    return name == word or name.endswith(f".{word}")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def is_adapter(name: str) -> bool:
    """Whether this entry of a state belongs to an adapter."""
    return name.endswith((_A, _B))


def is_adapted(module: nn.Module) -> bool:
    return any(is_adapter(name) for name, _ in module.named_parameters())


def plain(name: str) -> str:
    """The name that a weight has in the network without adapters."""
    return name.replace(_BASE, ".")


def frozen(module: nn.Module) -> set[str]:
    """Names of the weights that adapters leave as they are; none in a network without adapters."""
    if not is_adapted(module):
        return set()
    return {
        name for name, value in module.named_parameters(remove_duplicate=False) if not value.requires_grad
    }


def scale_of(module: nn.Module) -> float:
    """alpha / rank of an adapted network."""
    found: Any = next(part for part in module.modules() if hasattr(part, "lora_A"))
    return float(found.scaling["default"])


def merged(base: Mapping[str, Tensor], added: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """The state of one plain network: W + scale B A where there are adapters, everything else as it is."""
    state = {**base, **{name: value for name, value in added.items() if not is_adapter(name)}}
    for name in added:
        if not is_adapter(name):
            continue
        layer = name.removesuffix(_A).removesuffix(_B)
        weight, a, b = state.get(f"{layer}.weight"), added.get(layer + _A), added.get(layer + _B)
        if weight is None or a is None or b is None:
            raise UserError(f"these adapters are of another network: {layer[:80]} is not complete.")
        if a.ndim != 2 or b.ndim != 2 or weight.shape != (len(b), a.shape[-1]) or b.shape[1] != len(a):
            raise UserError(f"these adapters are of another network: {layer[:80]} has other sizes there.")
        if name.endswith(_A):
            state[f"{layer}.weight"] = weight + scale * (b.to(weight.dtype) @ a.to(weight.dtype))
    return state
