"""A whole run as one frozen tree of dataclasses, and its stored form.

Settings come from a recipe, then a `--config` file, then flags; each may name only what it changes. The tree is for the
command line, recipes, files and whole models; networks, methods, samplers, data and the trainer never see it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simplax.concentration import Concentration, Constant, Normalised, PerToken, Vanishing
from simplax.config import codec
from simplax.errors import UserError
from simplax.methods import METHODS, Method
from simplax.nn import PRESETS, Architecture
from simplax.nn.lora import Lora
from simplax.samplers import SAMPLERS, Sampler
from simplax.samplers.kappa import Fixed, FromEta, Kappa, MaxCapped, MaxRescale, Plateau, Remask, Segments
from simplax.samplers.positions import All, Classes, Every, Positions, SudokuColours
from simplax.samplers.transforms import check_temperature
from simplax.schedules import Cosine, Linear, LogLinear, Polynomial, Schedule
from simplax.tasks import TASKS, Task
from simplax.times import Grid, TimeLaw
from simplax.train.run import Run

# the names under which members of each family are stored; adding one is adding a line
FAMILIES: dict[type, Mapping[str, Any]] = {
    Task: TASKS,
    Method: METHODS,
    Architecture: PRESETS,
    Schedule: {"loglinear": LogLinear, "linear": Linear, "cosine": Cosine, "polynomial": Polynomial},
    Concentration: {
        "constant": Constant,
        "vanishing": Vanishing,
        "per_token": PerToken,
        "normalised": Normalised,
    },
    Sampler: SAMPLERS,
    Kappa: {
        "fixed": Fixed,
        "from_eta": FromEta,
        "remask": Remask,
        "max_capped": MaxCapped,
        "max_rescale": MaxRescale,
        "segments": Segments,
    },
    Positions: {"all": All, "every": Every, "classes": Classes, "sudoku": SudokuColours},
    TimeLaw: {"uniform": TimeLaw},
    Grid: {"even": Grid},
    Plateau: {"plateau": Plateau},
}


@dataclass(frozen=True)
class SamplingDefaults:
    """How a model is sampled when a caller does not choose otherwise."""

    num_steps: int = 64
    """steps of the sampler: network calls per sequence"""
    temperature: float = 1.0
    """the logits are divided by it"""
    top_p: float = 1.0
    """share of the probability that is kept at each position, the most likely tokens first"""
    sampler: Sampler[Any] | None = None
    """sampler and its settings; the method's own if none"""
    loops: int | None = None
    """how often a call goes through the network's blocks; as in training if none"""

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise UserError(f"num_steps must be at least 1, got {self.num_steps}.")
        if self.loops is not None and self.loops < 1:
            raise UserError(f"loops must be at least 1, got {self.loops}.")
        check_temperature(self.temperature)
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1, got {self.top_p}.")


@dataclass(frozen=True)
class Unconditional:
    """What replaces the sampling settings where no position is clamped."""

    temperature: float | None = None
    """the logits are divided by it; as with clamped positions if none"""
    sampler: Sampler[Any] | None = None
    """sampler and its settings; as with clamped positions if none"""

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_temperature(self.temperature)


@dataclass(frozen=True)
class RunConfig:
    """What is trained, on what, how, and how the result is sampled by default."""

    name: str
    """of the run, and of its directory below runs/"""
    task: Task
    """data"""
    method: Method
    """method"""
    architecture: Architecture
    """network, by the name of a preset"""
    run: Run
    """training"""
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    """how the model is sampled by default"""
    unconditional: Unconditional | None = None
    """what differs from `sampling` where no position is clamped"""
    lora: Lora | None = None
    """with --init-from: train low-rank adapters of that model only, for instance --lora.rank 8"""


def to_json(config: RunConfig) -> dict[str, Any]:
    """The resolved configuration as plain JSON data, every setting spelled out."""
    data: dict[str, Any] = codec.encode(config, FAMILIES)
    return data


def from_json(data: Mapping[str, Any]) -> RunConfig:
    """The inverse of `to_json`; settings left out take their defaults, unknown ones are refused."""
    config: RunConfig = codec.decode(RunConfig, data, FAMILIES)
    return config


def encode(value: Any) -> Any:
    """Any part of a configuration (a sampler, for instance) as plain JSON data."""
    return codec.encode(value, FAMILIES)


def load(path: str | Path) -> dict[str, Any]:
    """The JSON object in a configuration file."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The configuration file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"The configuration file {path} is not valid JSON: {error}.") from error
    if not isinstance(data, dict):
        raise UserError(f"The configuration file {path} must hold a JSON object of settings.")
    return data


def resolve(
    recipe: RunConfig, file: str | Path | None = None, flags: Iterable[tuple[str, str]] = ()
) -> RunConfig:
    """A recipe changed by a file and then by flags, pairs such as `("method.concentration", "0.1")`.

    The order of the flags does not matter: one that chooses a member of a family, `("method", "udlm")`, is applied
    before those that change the member.
    """
    data = to_json(recipe)
    if file is not None:
        data = codec.merge(data, load(file))
    for path, text in codec.outermost_first(flags):
        data = codec.merge(data, codec.nest(path, codec.Text(text)))
    config = from_json(data)
    for part in (config.sampling, config.unconditional):
        if part is not None and part.sampler is not None:
            config.method.check_sampler(part.sampler)
    return config


def flatten(data: Any, where: str = "") -> dict[str, Any]:
    """Dotted names and values of all settings, as flags take them."""
    if not isinstance(data, Mapping):
        return {where: data}
    inner = (flatten(value, f"{where}.{key}" if where else key) for key, value in data.items())
    return {name: value for part in inner for name, value in part.items()}
