"""`simplax data NAME`: prepare data, cache it and describe it."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from simplax.cli import entry, help_text
from simplax.cli.output import emit, table
from simplax.cli.parsing import Json, run
from simplax.errors import UserError, nearest

# name: (module with a function of that name, what it makes); adding one is adding a line
DATA: dict[str, tuple[str, str]] = {
    "molecules": (
        "simplax.cli.verbs.data_molecules",
        "QM9 or MOSES as tokens, from the installed package or a CSV file",
    ),
    "sequences": (
        "simplax.cli.verbs.data_text",
        "your own sequences: tables, FASTA, FASTQ, SMILES, integers, text",
    ),
    "text": ("simplax.cli.verbs.data_text", "the same by another name"),
    "sudoku": (
        "simplax.cli.verbs.data",
        "the pools of 9x9 puzzles: 48,000 to train on, 2,000 to evaluate on",
    ),
}


def main(arguments: list[str]) -> Any:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text("simplax data", "Prepare data, keep it, and describe it.", DATA))
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in DATA:
        raise UserError(f"there is no data {name!r}{nearest(name, list(DATA))}")
    return run(entry(DATA[name][0], name), rest, f"simplax data {name}")


def sudoku(
    *,
    clues: Annotated[tuple[int, ...], tyro.conf.arg(help="clue counts; each has its own pool")] = (30,),
    json: Json = False,
) -> None:
    """Make the puzzle pools, or find them in the cache, and print what they hold."""
    import numpy as np

    from simplax.data.cache import cache_directory
    from simplax.data.sudoku import pool

    rows = []
    for count in clues:
        made = pool(count)
        counts = made.valid.clue_counts
        values, numbers = np.unique(counts, return_counts=True)
        rows.append(
            {
                "clues": count,
                "train": len(made.train),
                "evaluate": len(made.valid),
                "mean_clues": float(counts.mean()),
                "clue_counts": {int(v): int(n) for v, n in zip(values, numbers)},
                "sha256": made.puzzles.sha256(),
            }
        )
    data = {"cache": str(cache_directory()), "pools": rows}
    names = ["clues", "train", "evaluate", "realised clues of the evaluation set", "sha256"]
    emit(
        json,
        data,
        lambda: table(
            names,
            [
                [
                    str(r["clues"]),
                    str(r["train"]),
                    str(r["evaluate"]),
                    _counts(r["clue_counts"]),
                    str(r["sha256"])[:16],
                ]
                for r in rows
            ],
        ),
    )


def _counts(counts: Any) -> str:
    return ", ".join(f"{value}: {number}" for value, number in counts.items())
