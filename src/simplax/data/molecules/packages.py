"""The published files: inside the installed data packages, which are read and never imported, or in a CSV file.

molsets 0.3.1 does not import with current pandas and RDKit, and qm9pack needs pandas; their files are what is wanted.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from simplax.data.text.compressed import check_beginning, expand, naming, temporary_folder
from simplax.errors import UserError
from simplax.io.files import sha256

_INSTALL = {
    "moses": "pip install --no-deps molsets==0.3.1",
    "qm9pack": "pip install --no-deps qm9pack==1.0.3",
}
_WHAT = {"moses": "the MOSES data and filter patterns", "qm9pack": "the QM9 data"}

# of molsets 0.3.1
_SHA256 = {
    "dataset/data/train.csv.gz": "786f0313aa6b9ba5514df685f885742a70ea8d86f1a4fa48115f7f80a634265c",
    "dataset/data/test.csv.gz": "f896fbf3764f88d94670b9959e5872c600c12152a18233823e820761b7a791b2",
    "dataset/data/test_scaffolds.csv.gz": "adffb2192c1bfe31ab0e13154d4af19a37dc18bdbf3cd7b4491e04405128adde",
    "dataset/data/test_stats.npz": "ded25073225a895d4ed17bf1d4223d27560e87ff4cb85786346ca1cc8efa03d3",
    "dataset/data/test_scaffolds_stats.npz": "7b7aba6c1474634a019bebf16f389d554cb9dd1021dfc8c1d1e54430a9f0e7f8",
}
MOSES_SPLITS = ("train", "test", "test_scaffolds")


def package_folder(name: str) -> Path:
    """Where an installed package lies, found without running any of it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise UserError(f"{_WHAT[name]} are not installed: run `{_INSTALL[name]}`.")
    return Path(next(iter(found.submodule_search_locations)))


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@cache
def moses_file(name: str) -> Path:
    """A file of molsets; a data file must be the published one, byte for byte."""
    path = package_folder("moses") / name
    if not path.is_file():
        raise UserError(f"{path} is missing: install the package again with `{_INSTALL['moses']}`.")
    if name in _SHA256 and sha256(path) != _SHA256[name]:
        raise UserError(f"{path} is not the published file: install it again with `{_INSTALL['moses']}`.")
    return path


def moses_strings(split: str) -> list[str]:
    """The published strings of `train`, `test` or `test_scaffolds`, in their published order."""
    with gzip.open(moses_file(f"dataset/data/{split}.csv.gz"), "rt", encoding="utf-8") as file:
        header, *rows = file.read().splitlines()
    assert header == "SMILES"
    return rows


def qm9_strings() -> list[str]:
    """The published strings of QM9 in their published order; they are neither canonical nor distinct."""
    folder = package_folder("qm9pack") / "data"
    parts = [folder / f"qm9_part{number}.csv" for number in (1, 2, 3)]
    missing = next((path for path in parts if not path.is_file()), None)
    if missing is not None:
        raise UserError(f"{missing} is missing: install the package again with `{_INSTALL['qm9pack']}`.")
    return [row[0] for path in parts for row in csv_columns(path, "SMILES")]


def csv_columns(path: Path, *names: str) -> Iterator[tuple[str, ...]]:
    """These columns of a CSV file, compressed or not, whose first line names its columns in any case."""
    plain = expand(path, temporary_folder())
    with naming((plain,), (path,)):
        check_beginning(plain)
    try:
        with open(plain, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            known = {name.strip().lower(): place for place, name in enumerate(next(rows, []))}
            lacking = next((name for name in names if name.lower() not in known), None)
            if lacking is not None:
                raise UserError(f"{path} has no column {lacking}: its first line must name the columns.")
            places = [known[name.lower()] for name in names]
            for row in rows:
                if not row:
                    continue
                if len(row) <= max(places):
                    raise UserError(f"{path} has too few cells in line {rows.line_num}: put that right.")
                yield tuple(row[place] for place in places)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: save it in that encoding.") from error
    except csv.Error as error:
        raise UserError(f"{path} is not a readable CSV file: {error}.") from error
