"""Files that no program wrote by the ten thousand, through every parser: each is read or refused in one sentence.

python tests/data_fuzz.py --cases 20000 --out results/data/fuzz.json
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from simplax.data.molecules.packages import csv_columns
from simplax.errors import UserError
from simplax.io.manifest import environment, write
from test_text_fuzz import few, make, making, molecules, parse, parsing, readings, squeezed, squeezing

SECONDS = 20
"""No example takes longer: one that does has hung."""


def _table(texts: list[str], name: str) -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table({name: texts}), file)
    return file.getvalue()


@st.composite
def parquet_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A table of ours, perhaps with bytes changed or missing."""
    content = bytearray(
        _table(draw(st.lists(st.text(max_size=6), max_size=6)), draw(st.sampled_from(["text", "a"])))
    )
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content) - 1))
        content[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return "file.parquet", bytes(
        content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content
    )


def published_csv(header: list[str], rows: list[str], tail: bytes) -> str:
    """The reader of molecule files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes((",".join(header) + "\n" + "\n".join(rows)).encode() + tail)
        try:
            list(csv_columns(path, "SMILES"))
        except UserError as error:
            assert "\n" not in str(error)
            return "refused"
    return "read"


def ending(example: tuple[Any, ...]) -> str:
    """What the example is called in the report: the name of its file without `file`."""
    first = example[0]
    name = first[0] if isinstance(first, tuple) else first if isinstance(first, str) else "csv"
    return str(name).removeprefix("file")


CAMPAIGN: dict[str, tuple[st.SearchStrategy[Any], Callable[..., str]]] = {
    "read": (parsing, parse),
    "prepare": (making, make),
    "expand": (squeezing, squeezed),
    "parquet": (st.tuples(parquet_files(), readings), parse),
    "molecules": (
        st.tuples(
            st.lists(st.sampled_from(["SMILES", "smiles", "SPLIT", "x", '"']), max_size=3),
            st.lists(molecules, max_size=5),
            st.binary(max_size=6),
        ),
        published_csv,
    ),
}


def run(name: str, cases: int, first: int) -> dict[str, Any]:
    """Counts by kind of file and outcome; an exception that is not a sentence ends the campaign."""
    examples, check = CAMPAIGN[name]
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    slowest = 0.0

    @seed(first)
    @settings(few, max_examples=cases, database=None)
    @given(examples)
    def counted(example: tuple[Any, ...]) -> None:
        nonlocal slowest
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of its own work: others may keep the machine busy
        outcome = check(*example)
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.perf_counter() - start)
        counts[ending(example), outcome] += 1

    start = time.perf_counter()
    counted()
    table: dict[str, dict[str, int]] = {}
    for (kind, outcome), number in sorted(counts.items()):
        table.setdefault(kind, {})[outcome] = number
    return {
        "cases": sum(counts.values()),
        "seconds": round(time.perf_counter() - start, 1),
        "slowest_seconds": round(slowest, 2),
        "outcomes": table,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="examples of each part of the campaign")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(CAMPAIGN), nargs="*", default=list(CAMPAIGN))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    for name in arguments.only:
        found[name] = run(name, arguments.cases, arguments.seed)
        print(name, json.dumps(found[name]), flush=True)
        if arguments.out is not None:  # after every part: who stops the campaign keeps what was done
            write(
                arguments.out,
                {**environment(), "seed": arguments.seed, "parts": {**kept(arguments.out), **found}},
            )


def kept(path: Path) -> dict[str, Any]:
    """Parts of an earlier campaign; the new ones replace those of the same name."""
    parts: dict[str, Any] = json.loads(path.read_text())["parts"] if path.is_file() else {}
    return parts


if __name__ == "__main__":
    main()
