"""`simplax data molecules qm9|moses`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from simplax.cli.output import emit, table
from simplax.cli.parsing import Json


def molecules(
    dataset: Annotated[Literal["qm9", "moses"], tyro.conf.Positional, tyro.conf.arg(help="which molecules")],
    /,
    *,
    tokens: Annotated[
        Literal["atoms", "characters"],
        tyro.conf.arg(help="what a token is: Cl and [nH] whole, or characters"),
    ] = "atoms",
    csv: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE",
            help="take the strings from here: a column SMILES, and for MOSES a column SPLIT as in its repository; "
            "the installed package (qm9pack, molsets) if not given",
        ),
    ] = None,
    again: Annotated[bool, tyro.conf.arg(help="make them again even if they are in the cache")] = False,
    json: Json = False,
) -> None:
    """Make the rows of tokens, or find them in the cache, and tell what they hold."""
    from simplax.data.molecules import prepare, smiles_tokens
    from simplax.errors import UserError
    from simplax.io.progress import progress

    if csv is not None and not csv.is_file():
        raise UserError(f"there is no file {csv}: name a CSV file with a column SMILES.")
    with progress(f"{dataset} as {tokens}", 100) as done:
        made = prepare(
            dataset, tokens, file=csv, again=again, progress=lambda now, all: done(100 * now // all)
        )
    vocabulary = [*smiles_tokens(dataset, tokens).vocabulary, "padding"]
    data = {**made.facts, "vocabulary": vocabulary, "file": str(made.path)}
    emit(json, data, lambda: _shown(made.facts))


def _shown(facts: dict[str, Any]) -> Any:
    names = ["split", "molecules", "tokens each", "fewest to most", "padding %", "length, nats"]
    rows = [
        [
            name,
            f"{of['molecules']:,}",
            f"{of['mean_length']:.2f}",
            f"{of['lengths'][0]} to {of['lengths'][1]}",
            f"{100 * of['padding_share']:.1f}",
            f"{of['length_entropy_nats']:.2f}",
        ]
        for name, of in facts["splits"].items()
    ]
    return table(names, rows)
