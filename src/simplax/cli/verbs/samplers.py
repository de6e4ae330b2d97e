"""`simplax samplers [NAME]`."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from simplax.cli.output import emit, table
from simplax.cli.parsing import Json, run
from simplax.errors import UserError, nearest


def main(arguments: list[str]) -> None:
    run(samplers, arguments, "simplax samplers")


def samplers(
    name: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="list the settings of this one")
    ] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """The samplers: what each one undoes, for which methods, and whether it is exact.

    Every command that samples takes any of them with --sampler NAME, and its settings with --sampler.SETTING VALUE.
    """
    from simplax.samplers import SAMPLERS

    if name is None:
        rows = {key: _facts(kind) for key, kind in SAMPLERS.items()}
        emit(json, rows, lambda: _overview(rows))
        return
    known = name.replace("-", "_")
    if known not in SAMPLERS:
        raise UserError(f"there is no sampler {name!r}{nearest(known, list(SAMPLERS))}")
    about = {"name": known, **_facts(SAMPLERS[known]), "settings": _settings(SAMPLERS[known])}
    emit(json, about, lambda: _one(about))


def _facts(kind: Any) -> dict[str, Any]:
    from simplax.methods import METHODS

    return {
        "undoes": [process.name for process in kind.undoes],
        "methods": [key for key, method in METHODS.items() if issubclass(method.process_type, kind.undoes)],
        "exactness": kind.exactness,
    }


def _settings(kind: type) -> dict[str, Any]:
    """Every setting with its default, how it is typed and what it means; those of a group below the group's."""
    from simplax.cli.reference import flat_settings

    return flat_settings(kind())


def _overview(rows: dict[str, Any]) -> Any:
    from rich.console import Group

    lines = [
        [name, " or ".join(row["undoes"]), " ".join(row["methods"]), row["exactness"]]
        for name, row in rows.items()
    ]
    hint = "\n`simplax samplers NAME` lists the settings of one; commands take --sampler NAME --sampler.SETTING VALUE."
    return Group(table(["sampler", "undoes", "methods", "draws"], lines), hint)


def _one(about: dict[str, Any]) -> Any:
    from rich.console import Group

    head = f"{about['name']}: undoes {' or '.join(about['undoes'])}; {about['exactness']}.\n"
    rows = [
        [f"--sampler.{name.replace('_', '-')} {row['typed']}", row["default"], row["meaning"]]
        for name, row in about["settings"].items()
    ]
    return Group(head, table(["setting", "default", "meaning"], rows) if rows else "It has no settings.")
