"""Preparation of data by several processes: how much faster two of them are than one, on the same file.

All turns are made in one run, one after the other, so that their ratios survive a machine whose speed changes slowly.
Two processes need two cores that nobody else uses: on a busy machine the ratio says nothing.

    python benchmarks/bench_prepare.py            table
    python benchmarks/bench_prepare.py --json     the same as JSON

The file is a CSV of random strings in the shape of SMILES. The bytes written are compared.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from simplax.data.text import Options, Prepared, prepare
from simplax.data.text.workers import available_cores

PIECES = ("C", "c1ccccc1", "O", "N", "(=O)", "C(C)", "Cl", "[nH]", "F", "S", "C1CCNCC1", "#N")


@dataclass(frozen=True)
class Settings:
    rows: int = 400_000
    workers: tuple[int, ...] = (1, 2)
    repeats: int = 3
    json: bool = False


def write_table(path: Path, rows: int) -> None:
    rng = random.Random(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("smiles\n")
        for _ in range(rows):
            file.write("".join(rng.choices(PIECES, k=rng.randint(4, 14))) + "\n")


def digests(made: Prepared) -> list[str]:
    return [
        shard["sha256"] for split in made.manifest["splits"].values() for shard in split.get("shards", ())
    ]


def measure(settings: Settings) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "table.csv", settings.rows)
        options = Options(str(folder / "table.csv"), "smiles", columns=("smiles",))
        seconds: dict[int, list[float]] = {count: [] for count in settings.workers}
        written = set()
        for turn in range(settings.repeats):
            for count in settings.workers:
                start = time.perf_counter()
                made = prepare(options, folder / f"{turn}-{count}", workers=count)
                seconds[count].append(time.perf_counter() - start)
                written.add(tuple(digests(made)))
        size = (folder / "table.csv").stat().st_size
    first = settings.workers[0]
    return {
        "rows": settings.rows,
        "bytes": size,
        "cores": available_cores(),
        "same_bytes": len(written) == 1,
        "seconds": {count: statistics.median(times) for count, times in seconds.items()},
        # of turns that follow each other, so that both met the same machine
        "speedup": {
            count: statistics.median(a / b for a, b in zip(seconds[first], times))
            for count, times in seconds.items()
        },
    }


def main(settings: Settings) -> None:
    found = measure(settings)
    if settings.json:
        print(json.dumps(found))
        return
    print(f"{found['rows']:,} rows, {found['bytes'] / 1e6:.0f} MB, {found['cores']} cores, ", end="")
    print("the same bytes" if found["same_bytes"] else "DIFFERENT BYTES")
    for count, seconds in found["seconds"].items():
        rate = found["rows"] / seconds
        print(f"{count} workers  {seconds:6.1f} s  {rate:10,.0f} rows/s  {found['speedup'][count]:.2f} x")


if __name__ == "__main__":
    main(tyro.cli(Settings))
