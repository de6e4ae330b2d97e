"""`simplax train RECIPE`."""

from __future__ import annotations

from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli import settings
from simplax.cli.output import emit, facts, first_process, say
from simplax.cli.parsing import Device, Json, read, refuse
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.train.hooks import Hook


def main(arguments: list[str]) -> None:
    recipe = settings.recipe_among(arguments)
    if recipe is None:
        call, unknown = read(train, arguments, "simplax train")
        refuse(unknown, [], "simplax train")
        call()
        return
    rest = list(arguments)
    rest.remove(recipe)
    call, unknown = read(train, [recipe, *rest], f"simplax train {recipe}", changes=settings.flags(recipe))
    flags = call.keywords["changes"]
    more, mistakes = settings.deeper(unknown)
    options = [f"--{name}" for name in signature(train).parameters]
    refuse(mistakes, [*options, *settings.names(flags)], f"simplax train {recipe}")
    call(changes=[*settings.given(flags), *more])


def train(
    recipe: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RECIPE",
            help="one of `simplax recipes`; with --data also a method, see `simplax methods`",
        ),
    ],
    /,
    *,
    data: Annotated[
        Path | None, tyro.conf.arg(help="train on your own sequences: what `simplax data sequences` made")
    ] = None,
    size: Annotated[
        str | None,
        tyro.conf.arg(
            help="of the network, with --data and a method: nano, micro, mini, tiny or small; nano if not given"
        ),
    ] = None,
    out: Annotated[Path | None, tyro.conf.arg(help="run directory; runs/RECIPE if not given")] = None,
    config: Annotated[Path | None, tyro.conf.arg(help="JSON file of settings laid over the recipe")] = None,
    init_from: Annotated[
        str | None, tyro.conf.arg(help="start from the weights of this model, or RUN@STEP")
    ] = None,
    decay_from: Annotated[
        bool, tyro.conf.arg(help="finish --init-from RUN@STEP: its optimizer too, the rate falling to zero")
    ] = False,
    resume: Annotated[bool, tyro.conf.arg(help="refuse a directory without a run to resume")] = False,
    fresh: Annotated[bool, tyro.conf.arg(help="refuse a directory that has a run")] = False,
    allow_older: Annotated[
        bool, tyro.conf.arg(help="use an older checkpoint if the last is damaged")
    ] = False,
    tensorboard: Annotated[bool, tyro.conf.arg(help="write curves to OUT/tensorboard too")] = False,
    wandb: Annotated[
        str | None, tyro.conf.arg(metavar="PROJECT", help="send curves to this Weights & Biases project too")
    ] = None,
    smoke: Annotated[bool, tyro.conf.arg(help="the same run in miniature: five steps")] = False,
    device: Device = "auto",
    json: Json = False,
    changes: tyro.conf.Suppress[
        Any
    ] = (),  # pairs of a setting's name and its new value; `main` makes the flags
) -> None:
    """Train a recipe. Running the same command again resumes it.

    Every setting of the recipe is a flag, for instance --run.steps 100 or --method.concentration 0.1:
    `simplax train RECIPE --help` lists them. Flags win over --config, which wins over the recipe.

    On several processes: torchrun --nproc-per-node N -m simplax -- train RECIPE.
    """
    from simplax import pretrained, recipes
    from simplax.config.run import resolve
    from simplax.pretrained.stored import at_step
    from simplax.recipes.launch import launch, repeats
    from simplax.recipes.own import choose

    chosen = choose(recipe, data, size)
    chosen = resolve(recipes.smoke(chosen) if smoke else chosen, config, changes)
    if out is None and (chosen.name in ("", "..") or Path(chosen.name).name != chosen.name):
        raise UserError(
            f"{chosen.name!r} cannot name a directory below runs: choose another --name, or give --out."
        )
    directory = out if out is not None else Path("runs") / chosen.name
    if resume and fresh:
        raise UserError("--resume and --fresh contradict each other: give one of them.")
    if resume and not (directory / "latest").exists():
        raise UserError(f"{directory} holds no run to resume: leave --resume out to start one.")
    hooks = _hooks(chosen.name, directory, tensorboard, wandb)
    say(f"training {chosen.name} in {directory}")
    first = recipes.RECIPES[recipe].follows if recipe in recipes.RECIPES else None
    if first is not None and init_from is None and not (directory / "latest").exists():
        say(
            f"{recipe} is meant to follow {first}: without --init-from runs/{first} it starts from random weights"
        )
    source = None if init_from is None else pretrained.find(at_step(init_from))
    if (
        source is not None
        and not decay_from
        and not (directory / "latest").exists()
        and (what := repeats(chosen, source))
    ):
        say(
            f"{init_from} began with the same {what} as this run will: --task.seed gives Sudoku and text another "
            "order, --run.seed other noise"
        )
    result = launch(
        chosen,
        directory,
        fresh=fresh,
        allow_older=allow_older,
        init_from=source,
        decay_from=decay_from,
        hooks=hooks,
        device=str(pretrained.place(device)) if device != "auto" else device,
    )
    record = {
        "name": chosen.name,
        "directory": str(result.directory),
        "step": result.step,
        "loss": result.loss,
    }
    cost = {} if result.cost is None else {"cost": asdict(result.cost)}
    record |= _validated(directory)
    emit(json, record | cost, lambda: facts(record))


def _hooks(name: str, directory: Path, tensorboard: bool, project: str | None) -> list[Hook]:
    """Made in the first process only, and before anything is trained: a missing package is reported at once."""
    from simplax.train.hooks import TensorBoard, WandB

    if not first_process():
        return []
    curves: list[Hook] = [TensorBoard(directory / "tensorboard")] if tensorboard else []
    return curves if project is None else [*curves, WandB(project, name, directory / "wandb-id")]


def _validated(directory: Path) -> dict[str, float]:
    """What the last validation measured, with the averaged weights."""
    from simplax.train.metrics import read as rows

    found = [row for row in rows(directory / "metrics.jsonl") if "validation_loss" in row]
    return {key: value for key, value in found[-1].items() if key != "step"} if found else {}
