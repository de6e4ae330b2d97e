"""`simplax licences`."""

from __future__ import annotations

from simplax.cli.output import emit, table
from simplax.cli.parsing import Json, run


def main(arguments: list[str]) -> None:
    run(licences, arguments, "simplax licences")


def licences(*, json: Json = False) -> None:
    """Licences of the installed packages that simplax uses, by itself or through another, as they state them."""
    from simplax.io.licences import packages

    found = packages()
    rows = [[each.name, each.version, each.licence, each.needed_by] for each in found]
    emit(
        json,
        [vars(each) for each in found],
        lambda: table(["package", "version", "licence", "needed by"], rows),
    )
