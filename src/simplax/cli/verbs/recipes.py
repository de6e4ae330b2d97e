"""`simplax recipes [NAME]`."""

from __future__ import annotations

from typing import Annotated

import tyro

from simplax.cli.output import emit, facts, table
from simplax.cli.parsing import Json, run


def main(arguments: list[str]) -> None:
    run(recipes, arguments, "simplax recipes")


def recipes(
    name: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="one recipe")
    ] = None,
    /,
    *,
    smoke: Annotated[bool, tyro.conf.arg(help="its five-step miniature")] = False,
    json: Json = False,
) -> None:
    """List the recipes, or print one with every setting by the name of its flag.

    The JSON of one recipe is a file that `simplax train --config` takes.
    """
    from simplax.config.run import flatten, to_json
    from simplax.recipes import RECIPES, get
    from simplax.recipes import smoke as reduce

    if name is None:
        listed = {key: recipe.description for key, recipe in sorted(RECIPES.items())}
        emit(json, listed, lambda: table(["recipe", "what"], [[k, v] for k, v in listed.items()]))
        return
    config = get(name)
    data = to_json(reduce(config) if smoke else config)
    emit(
        json,
        data,
        lambda: facts({f"--{key.replace('_', '-')}": _shown(v) for key, v in flatten(data).items()}),
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
