"""Files of other projects for the tests: real ones where the test data are, and small imitations made on the spot."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax.nn import Architecture, Denoiser
from simplax.schedules import LogLinear

ROWS, LENGTH = 11, 8


def published() -> Path:
    """The directory of real checkpoints, or a skipped test."""
    root = os.environ.get("SIMPLAX_TEST_DATA")
    path = Path(root or "") / "published"
    if root is None or not path.is_dir():
        pytest.skip("SIMPLAX_TEST_DATA names no directory with published checkpoints")
    return path


@contextmanager
def stand_in(module: str, name: str) -> Iterator[type]:
    """A class that pickles as `module.name` of a package that need not be installed."""
    made: list[str] = []
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
            made.append(path)
    kind = type(name, (), {"__module__": module, "__qualname__": name})
    before = getattr(sys.modules[module], name, None)
    setattr(sys.modules[module], name, kind)
    try:
        yield kind
    finally:
        if before is not None:
            setattr(sys.modules[module], name, before)
        for path in made:
            del sys.modules[path]


def network(rows: int = ROWS, seed: int = 0) -> Denoiser:
    """A small network of the published shape, with no weight at its initial constant."""
    torch.manual_seed(seed)
    denoiser = Denoiser(rows, LENGTH, Architecture(8, 1, 2, cond_dim=4), time=LogLinear().sigma)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return denoiser.eval()


def config(**changes: Any) -> dict[str, Any]:
    """Settings as UDLM's repository stores them."""
    return {
        "parameterization": "d3pm",
        "diffusion": "uniform",
        "time_conditioning": True,
        "noise": {"type": "loglinear"},
        "model": {"length": LENGTH, "n_heads": 2, "dropout": 0.1, "computed": "${eval:__import__('os')}"},
        **changes,
    }


def as_omegaconf(value: Any, kinds: dict[str, type]) -> Any:
    """Nested settings as objects of omegaconf, with the parents that make them a cycle."""
    node = kinds["DictConfig" if isinstance(value, dict) else "AnyNode"]()
    if isinstance(value, dict):
        node._content = {key: as_omegaconf(item, kinds) for key, item in value.items()}
        for child in node._content.values():
            child._parent = node
    else:
        node._val = value
    return node


def checkpoint(path: Path, denoiser: Denoiser, settings: dict[str, Any] | None = None, **more: Any) -> Path:
    """A Lightning checkpoint of the network, averages (twice the weights) and settings of omegaconf included."""
    state = {f"backbone.{name}": value for name, value in denoiser.state_dict().items()}
    with (
        stand_in("omegaconf.dictconfig", "DictConfig") as mapping,
        stand_in("omegaconf.nodes", "AnyNode") as leaf,
    ):
        kinds = {"DictConfig": mapping, "AnyNode": leaf}
        content = {
            "state_dict": state,
            "ema": {"decay": 0.99, "shadow_params": [2 * each.detach() for each in denoiser.parameters()]},
            "hyper_parameters": {"config": as_omegaconf(settings or config(), kinds)},
            **more,
        }
        torch.save(content, path)
    return path
