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
    labels: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(
            name="label",
            metavar="PROPERTY",
            help="compute qed, rings, logp or weight with RDKit and keep it, once for each",
        ),
    ] = (),
    workers: Annotated[int, tyro.conf.arg(help="processes that compute labels; changes speed only")] = 1,
    again: Annotated[bool, tyro.conf.arg(help="make them again even if they are in the cache")] = False,
    json: Json = False,
) -> None:
    """Make the rows of tokens, or find them in the cache, and tell what they hold."""
    from simplax.data.molecules import prepare, smiles_tokens
    from simplax.data.molecules.labels import described, property_values
    from simplax.errors import UserError
    from simplax.io.progress import progress

    if workers < 1:
        raise UserError(f"the number of workers must be at least 1, got {workers}.")
    described(labels)
    if csv is not None and not csv.is_file():
        raise UserError(f"there is no file {csv}: name a CSV file with a column SMILES.")
    with progress(f"{dataset} as {tokens}", 100, rate=False) as done:
        made = prepare(
            dataset, tokens, file=csv, again=again, progress=lambda now, all: done(100 * now // all)
        )
    about = {}
    for label in described(labels):
        with progress(label.name, 100, rate=False) as done:
            values = property_values(
                made, label.name, workers=workers, progress=lambda now, all: done(100 * now // all)
            )
        train = values.by_split["train"]
        about[label.name] = {"mean": float(train.mean()), "high_from": values.threshold}
    vocabulary = [*smiles_tokens(dataset, tokens).vocabulary, "padding"]
    data = {**made.facts, "vocabulary": vocabulary, "labels": about, "file": str(made.path)}
    emit(json, data, lambda: _shown(made.facts, about))


def _shown(facts: dict[str, Any], about: dict[str, dict[str, float]]) -> Any:
    from rich.console import Group
    from rich.text import Text

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
    told = [
        Text(f"{name}: mean {of['mean']:.4g}, high from {of['high_from']:.4g} on")
        for name, of in about.items()
    ]
    return Group(table(names, rows), *told)
