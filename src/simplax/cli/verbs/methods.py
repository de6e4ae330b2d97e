"""`simplax methods`."""

from __future__ import annotations

from dataclasses import asdict

from simplax.cli.output import emit, table
from simplax.cli.parsing import Json, run


def main(arguments: list[str]) -> None:
    run(methods, arguments, "simplax methods")


def methods(*, json: Json = False) -> None:
    """The ten methods: what each one noises, whether it has a likelihood, how it samples, where it comes from."""
    from simplax.methods.catalogue import CATALOGUE

    rows = {name: asdict(facts) for name, facts in CATALOGUE.items()}
    columns = ["latent", "likelihood", "sampler", "citation"]
    emit(
        json,
        rows,
        lambda: table(
            ["method", *columns],
            [[name, *(row[c] for c in columns)] for name, row in rows.items()],
        ),
    )
