"""The settings of a recipe as flags, each with its default and meaning, made without importing torch.

Recipes are Python and need torch to run, which takes seconds; `settings.json` holds what they say, written by
`simplax.cli.reference` and compared with the recipes by a test. A recipe that is not in it is described on the spot.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.parsing import split_settings

TABLE = Path(__file__).with_name("settings.json")
GROUP = "@"  # in a tree of settings: the name of the group that explains its fields
KIND = "kind"


class _Unset(str):
    """The default of every flag: the recipe's own value holds."""


_UNSET = _Unset()


@functools.cache
def _stored() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def recipe_among(arguments: list[str]) -> str | None:
    """The recipe that the arguments name: the first of them, or the first known name if options come before it."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0]
    return next((word for word in arguments if word in _stored()["recipes"]), None)


def flags(recipe: str) -> Any:
    """A dataclass instance that holds every setting of the recipe as an option, none of them used yet.

    It is empty if there is no such recipe: whoever runs it says what is wrong, and `deeper` finds the settings.
    """
    table = _stored()
    if recipe not in table["recipes"]:
        from simplax.cli.reference import describe
        from simplax.recipes import RECIPES

        if recipe not in RECIPES:
            return dataclasses.make_dataclass("Settings", [])()
        table = describe([recipe])
    sections = table["recipes"][recipe]
    tree = {
        name: table["parts"][value] if isinstance(value, int) else value for name, value in sections.items()
    }
    return _struct(tree, table["groups"])()


def sections() -> set[str]:
    """The first parts of the names of settings: task, method, run and so on."""
    return set(_stored()["groups"]["config.run.RunConfig"]["fields"])


def given(settings: Any) -> list[tuple[str, str]]:
    """Dotted names and texts of the flags that were used."""
    return [(name, value) for name, value in _leaves(settings) if value is not _UNSET]


def names(settings: Any) -> list[str]:
    """All flags of a recipe."""
    return [f"--{name}" for name, _ in _leaves(settings)]


def _leaves(settings: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{path}{field.name}.")
        else:
            yield path.rstrip(".") if field.name == KIND else f"{path}{field.name}", value


def deeper(unknown: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split what tyro did not know into settings and mistakes.

    A setting of something that the recipe does not have yet, as in `--method.schedule polynomial
    --method.schedule.power 3`, has no flag of its own: any `--SECTION.NAME VALUE` is one, checked when it is applied.
    """
    known = sections()
    return split_settings(unknown, lambda name: name.partition(".")[0] in known)


def shown(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(shown, value)) if isinstance(value, list) else str(value)


def _struct(
    tree: Mapping[str, Any], groups: Mapping[str, Any], path: str = "", first: tuple[Any, ...] = ()
) -> type:
    """A dataclass whose fields are the settings below `path`, after `first`; groups of settings are dataclasses too."""
    group = groups[tree[GROUP]]
    fields: list[Any] = [*first]
    for name, (metavar, meaning, names) in group["fields"].items():
        value, dotted = tree[name], f"{path}.{name}" if path else name
        about = "; one of ".join(filter(None, (meaning, ", ".join(names))))
        if isinstance(value, Mapping):
            # the flag of the group itself chooses another member of its family
            own = _flag(metavar, about, value.get("kind"), name=dotted, prefix_name=False)
            inner = _struct(value, groups, dotted, ((KIND, *own),) if names else ())
            fields.append((name, inner, dataclasses.field(default_factory=inner)))
        else:
            fields.append((name, *_flag(metavar, about, value)))
    made = dataclasses.make_dataclass("Settings", fields)
    made.__doc__ = group["about"]
    return made


def _flag(metavar: str, meaning: str, default: Any, **more: Any) -> tuple[Any, Any]:
    hint = "" if default is None else f"(default: {shown(default)})"
    option = tyro.conf.arg(metavar=metavar, help=meaning, help_behavior_hint=hint, **more)
    return Annotated[str, option], dataclasses.field(default=_UNSET)
