"""`simplax export RUN DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from simplax.cli.output import emit, facts
from simplax.cli.parsing import Json, ModelName, Weights, run
from simplax.cli.sampling import OWN, Eta, SamplerName, Steps, Temperature, TimePower, read_eta


def main(arguments: list[str]) -> None:
    run(export, arguments, "simplax export")


def export(
    model: ModelName,
    directory: Annotated[
        Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help="new directory for the exported model")
    ],
    /,
    *,
    steps: Steps = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Temperature = None,
    unconditional: Annotated[
        bool, tyro.conf.arg(help="the sampler and temperature are for drawing with nothing given")
    ] = False,
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], tyro.conf.arg(help="how weights are stored")
    ] = "float32",
    weights: Weights = "auto",
    adapter: Annotated[
        bool, tyro.conf.arg(help="write the low-rank adapters of a run alone, in the format of peft")
    ] = False,
    base: Annotated[
        str | None,
        tyro.conf.arg(metavar="MODEL", help="the model to merge exported adapters with, if it has moved"),
    ] = None,
    json: Json = False,
) -> None:
    """Write a model as a directory of its own, with the sampler settings it is used with from then on.

    Low-rank adapters are merged into the weights, unless --adapter keeps them apart.
    """
    from dataclasses import replace

    import torch

    from simplax.config.run import Unconditional
    from simplax.errors import UserError
    from simplax.pretrained.adapters import export_adapter
    from simplax.pretrained.model import WEIGHTS, find, from_pretrained
    from simplax.pretrained.stored import ADAPTER, locate
    from simplax.samplers.adjust import adjusted

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} already exists and is not empty: name a new directory.")
    if temperature is not None and not temperature > 0:
        raise UserError(f"--temperature must be positive, got {temperature}.")
    if unconditional and steps is not None:
        raise UserError("--steps holds with and without given positions: leave it out with --unconditional.")
    concentration = read_eta(eta)
    if adapter:
        given = (steps, eta, time_power, temperature, base, sampler.name)
        if any(value is not None for value in given) or unconditional or dtype != "float32":
            raise UserError("--adapter writes adapters as they are: leave out the other options.")
        export_adapter(locate(find(model), weights), directory)
        data = {"directory": str(directory), "bytes": (directory / ADAPTER).stat().st_size, "dtype": dtype}
        emit(json, data, lambda: facts(data))
        return
    loaded = from_pretrained(model, weights=weights, device="cpu", base=base)
    config, defaults = loaded.config, loaded.defaults(conditional=not unconditional)
    chosen_temperature = defaults.temperature if temperature is None else temperature
    chosen = sampler.of(loaded, conditional=not unconditional)
    if concentration is not None or time_power is not None:
        chosen = adjusted(chosen or loaded.method.sampler(), eta=concentration, time_power=time_power)
    if unconditional:
        config = replace(config, unconditional=Unconditional(chosen_temperature, chosen))
    else:
        number = defaults.num_steps if steps is None else steps
        sampling = replace(defaults, num_steps=number, temperature=chosen_temperature, sampler=chosen)
        config = replace(config, sampling=sampling)
    changed = replace(loaded, config=config)
    changed.save_pretrained(directory, getattr(torch, dtype))
    data = {"directory": str(directory), "bytes": (directory / WEIGHTS).stat().st_size, "dtype": dtype}
    emit(json, data, lambda: facts(data))
