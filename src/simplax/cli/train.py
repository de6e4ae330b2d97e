"""`simplax train RECIPE`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from simplax.cli.output import emit, facts, say
from simplax.cli.parsing import Device, Json, read, split_settings
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.train.hooks import Hook

# spelled out, for the configuration would bring torch along before a word of help is printed
SECTIONS = frozenset({"name", "task", "method", "architecture", "run", "sampling", "unconditional"})


def main(arguments: list[str]) -> None:
    rest, settings = split_settings(arguments, SECTIONS)
    read(train, rest, "simplax train")(settings=settings)


def train(
    recipe: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RECIPE", help="see `simplax recipes`; with --data also a method, see `simplax methods`"
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
    init_from: Annotated[str | None, tyro.conf.arg(help="start from the weights of this model")] = None,
    resume: Annotated[bool, tyro.conf.arg(help="insist on continuing a run that exists")] = False,
    fresh: Annotated[bool, tyro.conf.arg(help="insist on a directory without a run")] = False,
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
    settings: tyro.conf.Suppress[list[tuple[str, str]]] = [],  # noqa: B006  filled by `main`, never changed
) -> None:
    """Train a recipe. Running the same command again continues it.

    Any setting of the recipe is a flag, for instance --run.steps 100 or --method.concentration 0.1;
    `simplax recipes RECIPE` lists them. Flags win over --config, which wins over the recipe.
    On several processes: torchrun --nproc-per-node N -m simplax train RECIPE.
    """
    from simplax import pretrained, recipes
    from simplax.config.run import resolve
    from simplax.recipes.launch import launch, repeats
    from simplax.recipes.own import choose

    chosen = choose(recipe, data, size)
    chosen = resolve(recipes.smoke(chosen) if smoke else chosen, config, settings)
    if out is None and (chosen.name in ("", "..") or Path(chosen.name).name != chosen.name):
        raise UserError(
            f"{chosen.name!r} cannot name a directory below runs: choose another --name, or say --out."
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
        say(f"{recipe} is meant to follow {first}: without --init-from runs/{first} it starts from nothing")
    source = None if init_from is None else pretrained.find(init_from)
    if source is not None and not (directory / "latest").exists() and (what := repeats(chosen, source)):
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
        hooks=hooks,
        device=str(pretrained.place(device)) if device != "auto" else device,
    )
    told = {"name": chosen.name, "directory": str(result.directory), "step": result.step, "loss": result.loss}
    told |= _validated(directory)
    emit(json, told, lambda: facts(told))


def _hooks(name: str, directory: Path, tensorboard: bool, project: str | None) -> list[Hook]:
    """Made in the first process only, and before anything is trained: a package that is missing is told at once."""
    from simplax.train.hooks import TensorBoard, WandB

    if os.environ.get("RANK", "0") != "0":
        return []
    curves: list[Hook] = [TensorBoard(directory / "tensorboard")] if tensorboard else []
    return curves if project is None else [*curves, WandB(project, name, directory / "wandb-id")]


def _validated(directory: Path) -> dict[str, float]:
    """What the last validation measured, with the averaged weights."""
    from simplax.train.metrics import read as rows

    found = [row for row in rows(directory / "metrics.jsonl") if "validation_loss" in row]
    return {key: value for key, value in found[-1].items() if key != "step"} if found else {}
