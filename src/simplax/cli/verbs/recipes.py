"""`simplax recipes [NAME]`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli.output import emit, facts, table
from simplax.cli.parsing import Json, run
from simplax.cli.settings import shown
from simplax.errors import UserError, nearest

if TYPE_CHECKING:
    from simplax.recipes import Recipe


def main(arguments: list[str]) -> None:
    run(recipes, arguments, "simplax recipes")


def recipes(
    name: Annotated[
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="NAME", help="a family of recipes, or one recipe"),
    ] = None,
    /,
    *,
    smoke: Annotated[bool, tyro.conf.arg(help="settings of the recipe's five-step miniature")] = False,
    json: Json = False,
) -> None:
    """List the recipes: tasks and the methods each of them has.

    With the name of a family, list its recipes; with the name of a recipe, print its settings by the names of their
    flags. The JSON of one recipe is a file that `simplax train --config` takes.
    """
    from simplax.recipes import FAMILIES, RECIPES

    if name in RECIPES:
        _one(RECIPES[name], smoke, json)
        return
    if name is not None and name not in FAMILIES:
        raise UserError(f"there is no recipe {name!r}{nearest(name, [*RECIPES, *FAMILIES])}")
    if smoke:
        raise UserError("--smoke is for one recipe: name it.")
    listed = {key: one for key, one in RECIPES.items() if name in (None, one.family)}
    data = {key: one.description for key, one in listed.items()}
    emit(json, data, lambda: _families() if name is None else _members(name, list(listed.values())))


def _families() -> Any:
    """Tasks by methods."""
    from rich.console import Group

    from simplax.recipes import FAMILIES, RECIPES

    rows = []
    for family, about in FAMILIES.items():
        labels = [one.label for one in RECIPES.values() if one.family == family]
        rows += [[family, " ".join(labels), about], ["", "", ""]]
    hint = (
        "A recipe is FAMILY-METHOD, toy-simplax for instance. `simplax recipes FAMILY` says more about its recipes, "
        "`simplax train RECIPE --help` lists the settings of one, `simplax train RECIPE` runs it."
    )
    return Group(table(["family", "methods", "task"], rows), hint)


def _members(family: str, members: list[Recipe]) -> Any:
    """The recipes of one family, and what is different between them."""
    from rich.console import Group

    from simplax.recipes import FAMILIES

    rows = []
    for one in members:
        config = one()
        own = _difference(one.description, FAMILIES[family])
        network = f"{config.architecture.depth} x {config.architecture.width}"
        rows.append([one.name, f"{config.run.steps:,}", str(config.run.batch_size), network, own])
    return Group(f"{family}: {FAMILIES[family]}\n", table(["recipe", "steps", "batch", "network", ""], rows))


def _difference(description: str, about: str) -> str:
    """The clauses of a description that are not those of its family."""
    clauses = re.split(r"(?<=[,;]) ", f"{description};")
    common = re.split(r"(?<=[,;]) ", f"{about};")
    shared = next(
        (n for n, pair in enumerate(zip(clauses, common)) if pair[0][:-1] != pair[1][:-1]), len(common)
    )
    return " ".join(clauses[shared:]).rstrip(";")


def _one(recipe: Recipe, smoke: bool, json: bool) -> None:
    """Every setting of a recipe."""
    from rich.console import Group

    from simplax.config.run import flatten, to_json
    from simplax.recipes import smoke as reduce

    data = to_json(reduce(recipe()) if smoke else recipe())
    flags = {
        f"--{key.removesuffix('.kind').replace('_', '-')}": value for key, value in flatten(data).items()
    }
    hint = f"\n`simplax train {recipe.name} --help` says what they mean."
    emit(
        json,
        data,
        lambda: Group(
            f"{recipe.name}: {recipe.description}\n",
            facts({flag: shown(value) for flag, value in flags.items()}),
            hint,
        ),
    )
