"""The report of a campaign: what was done, how often, and what came of it; kinds repeated alone replace theirs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simplax.io.files import write_json, write_text

FOUND = """\
What the campaigns found, and what was done: a digit flipped in a stored point of a frontier, or in the scored
human text beside it, was read as a number (both have a digest now, and are measured again); a digit
flipped in the `config.json` of an export was another setting (the manifest has its digest now, and a line
warns); a digit flipped in the manifest of prepared data was another description (it has a digest now); one
in the result of an evaluation or in a row of a suite was shown (both have a digest now, and it is said); a full
disk under safetensors was a traceback (it is one sentence now). A byte of `metrics.jsonl` that was not text any
more stopped the run (the row is left out now); `compare` did not read what `sweep` writes (it does now); a killed
preparation could leave a half-written file in the data (it is removed now); an evaluation repeated could differ
in the last digit of the chain's entropy (its law is computed in plain numbers now); a full disk was not always
said with what to do.
Known: training does not compare prepared data with its digests, because that reads all of it;
`simplax data text DIR` does. Rows of `metrics.jsonl` and `samples.jsonl` are a log without a digest."""


def read(out: Path) -> dict[str, dict[str, Any]]:
    """The kinds of an earlier report, in its order; none if there is none of this form."""
    try:
        kinds = json.loads((out / "report.json").read_text(encoding="utf-8"))["kinds"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(kinds) if isinstance(kinds, dict) else {}


def merged(
    earlier: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]], names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """What was repeated replaces what was there; kinds that there are no more go."""
    both = {**earlier, **new}
    return {name: both[name] for name in names if name in both}


def write(out: Path, kinds: Mapping[str, dict[str, Any]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "report.json", {"kinds": kinds})
    write_text(out / "README.md", text(kinds))


def text(kinds: Mapping[str, dict[str, Any]]) -> str:
    commands: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        commands.setdefault(kind["command"], []).append(name)
    lines = [
        "# Faults",
        "",
        "Made by `make test-faults` (`tests/faults`): what was done to runs, data and exports, how often, and what",
        "came of it when the same command was given again. A traceback, wrong weights or a lost checkpoint would be",
        "a failure.",
        "",
    ]
    for number, (command, names) in enumerate(sorted(commands.items(), key=lambda pair: -len(pair[1]))):
        minutes = sum(kinds[name]["seconds"] for name in names) / 60
        which = (
            f" ({', '.join(names)})" if number else " (what is not named below)" if len(commands) > 1 else ""
        )
        lines += [f"This report: `{command}`, {minutes:.0f} minutes{which}.", ""]
    failed = [
        name for name, kind in kinds.items() if any(one.startswith("FAILED") for one in kind["outcomes"])
    ]
    damages = sum(sum(kind["outcomes"].values()) for name, kind in kinds.items() if kind["damages"])
    said = f"{damages} files were damaged. {'Failed: ' + ', '.join(failed) if failed else 'Nothing failed'}."
    lines += [said, "", FOUND, "", "| fault | outcome | times |", "|---|---|---:|"]
    for name, kind in kinds.items():
        lines += [f"| {name} | {outcome} | {times} |" for outcome, times in sorted(kind["outcomes"].items())]
    return "\n".join(lines) + "\n"
