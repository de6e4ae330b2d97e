"""Faults on purpose: kill, damage, fill and forbid at random, and see that nothing good is lost.

    python tests/faults/campaign.py                            some minutes
    python tests/faults/campaign.py --large --out results/faults

After each fault the same command is given again. It must end with the bits of a run that nothing happened to, or say in
one sentence what to do; a wrong model or a lost good checkpoint is a failure, and so is a traceback. Every attempt is a
process of its own, forked from one that has everything imported, so that hundreds of them take minutes.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import adapters
import holders
import kinds
import pairs
import places
import report
import shared
import stores
from processes import Failure, import_all

from simplax.io.environment import versions

ROUNDS, DAMAGES = 2, 120
LARGE_ROUNDS, LARGE_DAMAGES = 3, 1000


@dataclass(frozen=True)
class Kind:
    """A kind of fault; `share` is its part of all damages, 0 where it happens so many times in each round.

    It takes about `fixed` seconds and `each` for every time, which is only used to say how much time is left.
    """

    act: Callable[[Path, random.Random, int], Counter[str]]
    fixed: float
    each: float
    share: int = 0


KINDS = {
    "training killed": Kind(kinds.kill_training, 1, 4),
    "data preparation killed": Kind(kinds.kill_data, 1, 0.6),
    "export killed": Kind(kinds.kill_export, 1, 0.7),
    "evaluation killed": Kind(shared.kill_evaluation, 2, 4),
    "frontier killed": Kind(shared.kill_frontier, 2, 3),
    "one of two processes killed, or both": Kind(shared.kill_ranks, 10, 16),
    "two processes on one run": Kind(pairs.two_on_run, 1, 2),
    "two processes on one directory of data": Kind(pairs.two_on_data, 0.5, 1),
    "two processes on one export": Kind(pairs.two_on_export, 1, 0.7),
    "two processes on one result": Kind(pairs.two_on_evaluation, 1, 1.5),
    "two processes on one suite": Kind(pairs.two_on_suite, 3, 4),
    "two processes on one frontier": Kind(pairs.two_on_frontier, 2, 2.5),
    "clock jumped": Kind(shared.jump_clock, 10, 4),
    "disk full": Kind(places.full_disk, 12, 12),
    "directory that may not be written": Kind(places.read_only, 20, 0),
    "bytes of a run flipped or cut": Kind(kinds.damage_run, 1.5, 0.4, 20),
    "bytes of an export flipped or cut": Kind(kinds.damage_export, 1, 0.02, 20),
    "bytes of adapters flipped or cut": Kind(adapters.damage_adapters, 4, 0.3, 20),
    "bytes of prepared data flipped or cut": Kind(shared.damage_data, 0.5, 0.02, 18),
    "bytes of results flipped or cut": Kind(stores.damage_results, 3, 0.7, 14),
    "bytes of a frontier flipped or cut": Kind(shared.damage_frontier, 2, 3, 3),
    "bytes of a suite flipped or cut": Kind(stores.damage_suite, 3, 3, 3),
    "bytes of a checkpoint of two processes flipped or cut": Kind(stores.damage_shares, 3, 1, 7),
    "bytes of locks and claims flipped or cut": Kind(holders.damage_holders, 4, 4, 4),
}
SHARES = sum(kind.share for kind in KINDS.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=None, help=f"of every kind but damages ({ROUNDS})")
    parser.add_argument("--damages", type=int, default=None, help=f"damaged files, of all kinds ({DAMAGES})")
    large = f"{LARGE_ROUNDS} rounds and {LARGE_DAMAGES} damages, if not said otherwise"
    parser.add_argument("--large", action="store_true", help=large)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose names have this in them")
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        help="directory for report.json and README.md; with --only the other kinds of a report there stay in it",
    )
    options = parser.parse_args()
    usual = (LARGE_ROUNDS, LARGE_DAMAGES) if options.large else (ROUNDS, DAMAGES)
    rounds, damages = (
        given if given is not None else one for given, one in zip((options.rounds, options.damages), usual)
    )
    counts = {
        name: max(1, round(damages * kind.share / SHARES)) if kind.share else rounds
        for name, kind in KINDS.items()
        if options.only in name
    }
    if not counts:
        parser.error(f"there is no kind of fault with {options.only!r} in its name")
    found, start = dict[str, dict[str, Any]](), time.perf_counter()
    import_all()
    for number, (name, count) in enumerate(counts.items()):
        left = _left(counts, number, time.perf_counter() - start)
        print(f"[{number + 1}/{len(counts)}] {name}, {left}", flush=True)
        found[name] = _happen(name, count, options.seed)
        print(f"  took {found[name]['seconds']:.0f} s", flush=True)
        for outcome, times in sorted(found[name]["outcomes"].items(), key=lambda pair: -pair[1]):
            print(f"  {times:5d}  {outcome}", flush=True)
    failed = [name for name, one in found.items() if any(key.startswith("FAILED") for key in one["outcomes"])]
    seconds = time.perf_counter() - start
    used = os.times()
    work = used.user + used.system + used.children_user + used.children_system
    print(
        f"{len(found)} kinds in {seconds / 60:.1f} minutes, {work / 60:.1f} of them at work on a core; "
        f"failed: {', '.join(failed) or 'none'}"
    )
    if options.out is not None:
        earlier = report.read(options.out) if options.only else {}
        report.write(options.out, report.merged(earlier, found, KINDS))
        print(f"written to {options.out}")
    return int(bool(failed))


def _happen(name: str, count: int, seed: int) -> dict[str, Any]:
    """One kind of fault, and its entry in the report."""
    kind, began = KINDS[name], time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="simplax-faults-") as place:
        try:
            outcomes = dict(kind.act(Path(place), random.Random(f"{seed} {name}"), count))
        except Failure as failure:
            outcomes = {f"FAILED: {failure}": 1}
        except Exception as error:  # the other kinds are still worth their time
            outcomes = {f"FAILED: {type(error).__name__}: {error}": 1}
    return {
        "command": shlex.join(["python", "tests/faults/campaign.py", *sys.argv[1:]]),
        "seed": seed,
        "damages": bool(kind.share),
        "count": count,
        "seconds": round(time.perf_counter() - began, 1),
        "versions": versions(),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _left(counts: dict[str, int], done: int, seconds: float) -> str:
    """From how long the kinds usually take, and how much slower or faster they went here until now."""
    usual = [KINDS[name].fixed + KINDS[name].each * count for name, count in counts.items()]
    pace = seconds / sum(usual[:done]) if done else 1.0
    left = pace * sum(usual[done:])
    return f"about {left / 60:.0f} min left" if left >= 90 else f"about {left:.0f} s left"


if __name__ == "__main__":
    sys.exit(main())
