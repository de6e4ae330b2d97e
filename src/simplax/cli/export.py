"""`simplax export RUN DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from simplax.cli.output import emit, facts
from simplax.cli.parsing import Json, ModelName, Weights, run
from simplax.cli.sampling import Eta, Steps, Temperature, read_eta


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
    eta: Eta = None,
    temperature: Temperature = None,
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], tyro.conf.arg(help="how weights are stored")
    ] = "float32",
    weights: Weights = "ema",
    json: Json = False,
) -> None:
    """Write a model as a directory of its own, with the sampler settings it is used with from then on."""
    from dataclasses import replace

    import torch

    from simplax.errors import UserError
    from simplax.hub import WEIGHTS, from_pretrained

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} already exists and is not empty: name a new directory.")
    if temperature is not None and not temperature > 0:
        raise UserError(f"--temperature must be positive, got {temperature}.")
    concentration = read_eta(eta)
    loaded = from_pretrained(model, weights=weights, device="cpu")
    sampling = loaded.config.sampling
    sampling = replace(
        sampling,
        num_steps=sampling.num_steps if steps is None else steps,
        temperature=sampling.temperature if temperature is None else temperature,
        sampler=sampling.sampler if concentration is None else loaded.sampler(concentration),
    )
    changed = replace(loaded, config=replace(loaded.config, sampling=sampling))
    changed.save_pretrained(directory, getattr(torch, dtype))
    data = {"directory": str(directory), "bytes": (directory / WEIGHTS).stat().st_size, "dtype": dtype}
    emit(json, data, lambda: facts(data))
