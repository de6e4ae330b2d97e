"""Faults on purpose: kill, damage, fill and forbid at random, and see that nothing good is lost.

    python tests/faults/campaign.py --rounds 4 --damages 300 --out results/faults

After each fault the same command is given again. It must end with the bits of a run that nothing happened to, or say in
one sentence what to do; a wrong model or a lost good checkpoint is a failure, and so is a traceback. Every attempt is a
process of its own, forked from one that has everything imported, so that hundreds of them take minutes.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import kinds
import places
import shared
import stores
from processes import Failure

from simplax.io.environment import versions
from simplax.io.files import write_json, write_text

KINDS: dict[str, Callable[[Path, random.Random, int], collections.Counter[str]]] = {
    "training killed": kinds.kill_training,
    "data preparation killed": kinds.kill_data,
    "export killed": kinds.kill_export,
    "two processes on one run": kinds.two_at_once,
    "bytes of a run flipped or cut": kinds.damage_run,
    "bytes of an export flipped or cut": kinds.damage_export,
    "bytes of prepared data flipped or cut": shared.damage_data,
    "bytes of a frontier flipped or cut": shared.damage_frontier,
    "bytes of a suite flipped or cut": stores.damage_suite,
    "bytes of an evaluation flipped or cut": stores.damage_evaluation,
    "bytes of a checkpoint of two processes flipped or cut": stores.damage_shares,
    "two processes on one suite": stores.two_on_suite,
    "two processes on one frontier": stores.two_on_frontier,
    "disk full": places.full_disk,
    "directory that may not be written": places.read_only,
    "one of two processes killed, or both": shared.kill_ranks,
    "evaluation killed": shared.kill_evaluation,
    "frontier killed": shared.kill_frontier,
    "clock jumped": shared.jump_clock,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4, help="of every kind of fault but damages")
    parser.add_argument("--damages", type=int, default=300, help="damaged files of a run, and of an export")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose names have this in them")
    parser.add_argument("--out", type=Path, default=None, help="directory for report.json and README.md")
    options = parser.parse_args()
    report, failed, start = {}, False, time.perf_counter()
    for number, (name, kind) in enumerate(KINDS.items()):
        if options.only not in name:
            continue
        began = time.perf_counter()
        count = options.damages if name.startswith("bytes ") else options.rounds
        with tempfile.TemporaryDirectory(prefix="simplax-faults-") as place:
            try:
                outcomes = dict(kind(Path(place), random.Random(options.seed * 100 + number), count))
            except Failure as failure:
                outcomes, failed = {f"FAILED: {failure}": 1}, True
        report[name] = outcomes
        print(f"{name} ({time.perf_counter() - began:.0f} s)", flush=True)
        for outcome, times in sorted(outcomes.items(), key=lambda pair: -pair[1]):
            print(f"  {times:5d}  {outcome}", flush=True)
    if options.out is not None:
        _write(options.out, report, options.seed, time.perf_counter() - start)
    return int(failed)


def _write(out: Path, report: dict[str, dict[str, int]], seed: int, seconds: float) -> None:
    command = " ".join(["python tests/faults/campaign.py", *sys.argv[1:]])
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "report.json", {"seed": seed, "versions": versions(), "outcomes": report})
    lines = [
        "# Faults",
        "",
        "Made by `make test-faults` (`tests/faults`): what was done to runs, data and exports, how often, and what",
        "came of it when the same command was given again. A traceback, wrong weights or a lost checkpoint would be",
        "a failure.",
        "",
        f"This report: `{command}`, {seconds / 60:.0f} minutes.",
        "",
        "What the campaign found, and what was done: a digit flipped in a stored point of a frontier, or in the scored",
        "human text beside it, was read as a number (both have a digest now, and are measured again); a digit",
        "flipped in the `config.json` of an export was another setting (the manifest has its digest now, and a line",
        "warns); a digit flipped in the manifest of prepared data was another description (it has a digest now); one",
        "in the result of an evaluation or in a row of a suite was shown (both have a digest, and it is said); a full",
        "disk under safetensors was a traceback (it is one sentence now).",
        "Known: training does not compare prepared data with its digests, because that reads all of it;",
        "`simplax data text DIR` does.",
        "",
        "| fault | outcome | times |",
        "|---|---|---:|",
    ]
    for name, outcomes in report.items():
        lines += [f"| {name} | {outcome} | {times} |" for outcome, times in sorted(outcomes.items())]
    write_text(out / "README.md", "\n".join(lines) + "\n")
    print(f"written to {out}: {json.dumps({name: sum(o.values()) for name, o in report.items()})}")


if __name__ == "__main__":
    sys.exit(main())
