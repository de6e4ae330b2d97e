"""`simplax methods`."""

from __future__ import annotations

from dataclasses import asdict

from simplax.cli.output import emit, table
from simplax.cli.parsing import Json, run


def main(arguments: list[str]) -> None:
    run(methods, arguments, "simplax methods")


def methods(*, json: Json = False) -> None:
    """The methods: what each one adds noise to, whether it has a likelihood, how it is sampled, where it is published.

    The JSON has the titles of the publications too.
    """
    from simplax.methods import METHODS

    rows = {
        name: {**asdict(method.facts), "likelihood": method.likelihood_kind()}
        for name, method in METHODS.items()
    }
    columns = ["latent", "likelihood", "sampler", "citation"]
    emit(
        json,
        rows,
        lambda: table(
            ["method", *columns],
            [
                [name, *(row[c] for c in columns[:-1]), row["citation"].split(",")[0]]
                for name, row in rows.items()
            ],
        ),
    )
