"""Files that no program wrote by the ten thousand, through every parser: each is read or refused in one sentence.

python tests/data_fuzz.py --cases 5000 --out results/data/fuzz.json
"""

from __future__ import annotations

import argparse
import collections
import contextlib
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

from fuzzed_files import files, preparations, words
from prepared_damage import directories, opened, prepared_at
from real_damage import real, real_files
from simplax.cli import main as command
from simplax.data.molecules.canonical import parse as molecule_of
from simplax.errors import UserError
from simplax.evaluate.molecules.chemistry import ERRORS, error_kind
from simplax.evaluate.molecules.strings import read_strings
from simplax.io.manifest import environment, write
from test_text_fuzz import (
    archives,
    few,
    loaded,
    make,
    making,
    one_sentence,
    parse,
    parsing,
    published_csv,
    spelled,
    spelling,
    squeezed,
    tables_of_molecules,
    tokenizer_files,
)

SECONDS = 20
"""No example takes longer: one that does has hung."""
AT_ONCE = 500
"""Hypothesis remembers what it has tried: a campaign is many short ones with seeds of their own."""


def commanded(file: tuple[str, bytes], asked: dict[str, Any]) -> str:
    """`simplax data sequences FILE`: exit code 0 and the data, or 2, one sentence and nothing written."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / file[0], Path(folder) / "out"
        path.write_bytes(file[1])
        words = ["data", "sequences", str(path), "--out", str(out), "--workers", "1", "--json"]
        for name in ("tokenizer", "layout", "length", "split", "errors"):
            words += [f"--{name}", str(asked[name])] if asked[name] is not None else []
        words += ["--no-eos"] if asked["eos"] is False else []
        for name in ("labels", "columns"):
            words += [f"--{name}", *asked[name]] if asked[name] else []
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            status = command(words)
        if status == 0:
            assert json.loads(said.getvalue())["directory"] == str(out)
            return "prepared"
        assert status == 2 and not said.getvalue() and not out.exists()
        assert len(complained.getvalue().splitlines()) == 1 and complained.getvalue().startswith("simplax:")
        return "refused"


def judged(name: str, data: bytes) -> str:
    """A file of strings that is evaluated as molecules: each is a molecule, or has one kind of error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            strings = read_strings(path)
        except UserError as error:
            return one_sentence(error)
    assert all(molecule_of(text) is not None or error_kind(text) in ERRORS for text in strings)
    return "judged"


def ending(example: tuple[Any, ...]) -> str:
    """What the example is called in the report: the ending of its file, the name of a tokenizer or of what was done."""
    first = example[0]
    if isinstance(first, Path):
        return f"{first.name}: {example[1][0]}"
    name = first[0] if isinstance(first, tuple) else first if isinstance(first, str) else "tokenizer.json"
    return str(name).removeprefix("file") or ".csv"


Part = tuple[st.SearchStrategy[Any], Callable[..., str]]


def campaign(folder: Path) -> dict[str, Part]:
    """All parts by name; prepared data to be harmed is in `folder`."""
    molecules = st.one_of(words, st.lists(st.sampled_from("CNOcn1()[]=#+-_H%0 "), max_size=9).map("".join))
    lines = st.lists(molecules, max_size=5).map(lambda rows: "\n".join(rows).encode())
    return {
        "read": (parsing, parse),
        "whole files": (real_files, real),
        "prepare": (making, make),
        "command": (st.tuples(files(), preparations), commanded),
        "expand": (archives, squeezed),
        "tokenizers": (spelling, spelled),
        "tokenizer files": (tokenizer_files(folder), loaded),
        "prepared directories": (directories(folder), opened),
        "tables of molecules": (tables_of_molecules, published_csv),
        "strings to judge": (
            st.one_of(st.tuples(st.just("file.smi"), st.one_of(lines, st.binary(max_size=20))), files()),
            judged,
        ),
    }


def run(part: Part, cases: int, first: int) -> dict[str, Any]:
    """Counts by kind of file and outcome; an exception that is not a sentence ends the campaign."""
    examples, check = part
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    slowest = 0.0

    def counted(example: tuple[Any, ...]) -> None:
        nonlocal slowest
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of its own work: others may keep the machine busy
        outcome = check(*example)
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.perf_counter() - start)
        counts[ending(example), outcome] += 1

    start, turn = time.perf_counter(), 0
    while sum(counts.values()) < cases:
        number = min(AT_ONCE, cases - sum(counts.values()))
        asked = settings(few, max_examples=number, database=None)
        seed(1000 * first + turn)(asked(given(examples)(counted)))()
        turn += 1
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
    with tempfile.TemporaryDirectory() as folder:
        parts = campaign(prepared_at(Path(folder)))
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--cases", type=int, default=5_000, help="examples of each part of the campaign")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--only", choices=list(parts), nargs="*", default=list(parts))
        parser.add_argument("--out", type=Path)
        arguments = parser.parse_args()
        found: dict[str, Any] = {}
        for name in arguments.only:
            found[name] = run(parts[name], arguments.cases, arguments.seed)
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
