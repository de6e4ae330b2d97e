"""What made a number: one JSON record beside every evaluation, enough to repeat it."""

from __future__ import annotations

import datetime
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from simplax.errors import UserError
from simplax.io.digest import DIGEST, with_digest, without_digest
from simplax.io.environment import versions
from simplax.io.files import create_json, write_json
from simplax.io.sharding import current

FORMAT = "simplax-manifest-1"


def environment() -> dict[str, Any]:
    """When, with what and by which command."""
    return {
        "format": FORMAT,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([_program(), *sys.argv[1:]]),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "processes": current().size,
    }


def _program() -> str:
    """How the command was called, without where it happens to be installed."""
    called = Path(sys.argv[0])
    if called.name in ("__main__.py", "simplax"):
        return "simplax"
    return called.name if called.is_absolute() else str(called)


def write(path: str | Path, record: dict[str, Any]) -> Path:
    """Store a result, making its directory; say where. The record gets its digest, so that what is printed has it too.

    One that is not complete yet does not take the place of one that is: it waits beside it as NAME.partial.json.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    record.update(with_digest(record))
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    if record.get("complete") is False and _is_complete(path):
        write_json(partial, record)
        return partial
    write_json(path, record)
    if record.get("complete"):
        partial.unlink(missing_ok=True)
    return path


def write_new(directory: Path, name: str, record: dict[str, Any]) -> Path:
    """Store a result as NAME.json, or NAME-2.json and so on: a file of its own, whoever else writes there."""
    directory.mkdir(parents=True, exist_ok=True)
    record.update(with_digest(record))
    names = (f"{name}.json" if number == 1 else f"{name}-{number}.json" for number in itertools.count(1))
    return next(path for path in (directory / one for one in names) if create_json(path, record))


def read(path: Path) -> tuple[Any, bool]:
    """A stored result without its digest, and whether it is as it was written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the result {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is not a result of simplax: it is not JSON.") from error
    if not isinstance(found, dict):
        return found, True
    intact = without_digest(found) is not None
    return {name: value for name, value in found.items() if name != DIGEST}, intact


def _is_complete(path: Path) -> bool:
    try:
        record, intact = read(path)
        return intact and "result" in record and record.get("complete", True)
    except (UserError, AttributeError, TypeError):
        return False
