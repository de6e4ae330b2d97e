"""`simplax rerun MANIFEST`: repeat one result and say whether it is the same."""

from __future__ import annotations

import json as json_module
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli.output import emit, say, table
from simplax.cli.parsing import Json, run
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.evaluate.repeats import Repeat

# verb: (what --out is given, where the record then is)
_WRITES: dict[str, tuple[str, str]] = {
    "evaluate": ("again.json", "again.json"),
    "sweep": ("again", "again.json"),
    "frontier": ("again", "again/frontier.json"),
}
_PLACES = ("--out", "--samples", "--figures", "--figure")
_WORDS = {
    "equal": "the same, bit for bit",
    "within": "within the intervals, and not the same bits",
    "differs": "not the same",
}


def main(arguments: list[str]) -> int:
    return int(run(rerun, arguments, "simplax rerun"))


def rerun(
    manifest: Annotated[
        Path,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="MANIFEST", help="what evaluate, sweep, frontier or a suite wrote"),
    ],
    /,
    *,
    model: Annotated[
        str | None, tyro.conf.arg(help="where its weights are now, if not where they were")
    ] = None,
    points: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="POINT", help="of a suite's row only these, such as 30 or 0")
    ] = (),
    puzzles: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="where the 17-clue puzzles are now")
    ] = None,
    json: Json = False,
) -> int:
    """Measure again what a manifest describes, with the same weights, settings and seeds, and compare.

    Bit-equal numbers can be expected on the same kind of machine with the same versions and number of threads. The
    exit status is 0 if all numbers are equal or within their stored intervals, and 1 if one is not. Numbers without an
    interval may differ by 2 %.
    """
    from simplax.evaluate.repeats import DIFFERS, compare

    record = _read(manifest)
    if "benchmark" in record:
        stored, found = _suite_row(manifest, record, model, points, puzzles)
    else:
        if points:
            raise UserError("points are those of a suite's row: leave --points out.")
        stored, found = _command(record, model, puzzles)
    repeat = compare(stored, found)
    changed = _versions(record)
    data = {
        "manifest": str(manifest),
        "verdict": repeat.verdict,
        "compared": repeat.compared,
        "differences": [vars(one) for one in repeat.differences],
        "versions": changed,
    }
    emit(json, data, lambda: _shown(repeat, changed))
    return 1 if repeat.verdict == DIFFERS else 0


def _read(path: Path) -> dict[str, Any]:
    from simplax.io.manifest import read

    file = path / "frontier.json" if path.is_dir() else path
    record, _ = read(file)  # one that was edited is what repeating it finds out
    if isinstance(record, dict) and "benchmark" not in record and isinstance(record.get("manifest"), dict):
        record = record["manifest"]
    if not isinstance(record, dict) or not ("benchmark" in record or {"command", "result"} <= set(record)):
        raise UserError(
            f"{file} is not a result of simplax: give what evaluate, sweep, frontier or a suite wrote."
        )
    return record


def _suite_row(
    path: Path, record: dict[str, Any], model: str | None, points: Sequence[str], puzzles: Path | None
) -> tuple[Any, Any]:
    from contextlib import ExitStack

    from simplax.io.progress import progress
    from simplax.suites.benchmark import Surroundings
    from simplax.suites.rerun import again

    place = path.parent.parent / record["manifest"]["model"]["path"] if model is None else Path(model)
    with ExitStack() as stack:
        bars: dict[str, Callable[[int], None]] = {}

        def tell(point: str, done: int, total: int) -> None:
            if point not in bars:
                stack.close()
                bars[point] = stack.enter_context(progress(point, total))
            bars[point](done)

        return again(record, place, Surroundings(puzzles), points, tell)


def _command(record: dict[str, Any], model: str | None, puzzles: Path | None) -> tuple[Any, Any]:
    """The recorded command in a process of its own, its files in a directory that is removed afterwards."""
    words = shlex.split(str(record["command"]))
    if words[1:2] == ["--"]:  # of a command that torchrun started; one process gives the same bits
        del words[1]
    if len(words) < 3 or words[0] != "simplax" or words[1] not in _WRITES:
        raise UserError(
            f"this result was made with {record['command']!r}, which is not a command that can be repeated."
        )
    verb, *rest = words[1:]
    options = _without_places(rest)
    if model is not None:
        options[0] = model
    if puzzles is not None:
        options = _replaced(options, "--puzzles", str(puzzles))
    out, written = _WRITES[verb]
    with tempfile.TemporaryDirectory() as folder:
        command = [verb, *options, "--out", str(Path(folder) / out)]
        say(f"simplax {shlex.join(command)}")
        done = subprocess.run(
            [sys.executable, "-m", "simplax", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1].removeprefix("simplax: ")
            raise UserError(f"the command could not be repeated: {last}")
        again = json_module.loads((Path(folder) / written).read_text(encoding="utf-8"))
    before, after = _weights(record), _weights(again)
    if before != after:
        raise UserError(
            "the model has other weights than the result was made with: name theirs with --model."
        )
    return record["result"], again["result"]


def _without_places(words: Sequence[str]) -> list[str]:
    """Arguments without those that say where files go."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in _PLACES:
            skip = True
        elif word != "--json" and not word.startswith(tuple(f"{place}=" for place in _PLACES)):
            kept.append(word)
    return kept


def _replaced(words: list[str], option: str, value: str) -> list[str]:
    """Arguments with another value for an option that takes one."""
    if option not in words:
        raise UserError(f"the result was made without {option}: leave it out.")
    place = words.index(option)
    return [*words[: place + 1], value, *words[place + 2 :]]


def _weights(record: dict[str, Any]) -> list[str]:
    models = [record["model"]] if "model" in record else record.get("models", [])
    return [str(model.get("sha256")) for model in models]


def _versions(record: dict[str, Any]) -> dict[str, Any]:
    """Versions that are not those the result was made with."""
    from simplax.io.environment import versions

    about = record.get("manifest", record)
    before, now = about.get("versions", {}), versions()
    return {name: [before.get(name), now[name]] for name in now if before.get(name) != now[name]}


def _shown(repeat: Repeat, changed: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.text import Text

    lines: list[Any] = [Text(f"{_WORDS[repeat.verdict]}: {repeat.compared} values compared")]
    if repeat.differences:
        rows = [
            [
                one.name,
                str(one.stored),
                str(one.now),
                "" if one.interval is None else f"{one.interval[0]:.4g} to {one.interval[1]:.4g}",
                "within" if one.within else "differs",
            ]
            for one in repeat.differences
        ]
        lines.append(table(["", "stored", "now", "stored interval", ""], rows))
    if changed:
        lines.append(Text("; ".join(f"{name} {was}, now {now}" for name, (was, now) in changed.items())))
    return Group(*lines)
