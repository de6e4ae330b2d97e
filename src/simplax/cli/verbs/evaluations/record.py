"""Where the manifest of an evaluation goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import say

Out = Annotated[
    Path | None, tyro.conf.arg(help="file for the manifest; MODEL/evaluations/ if MODEL is a directory")
]


def keep(record: dict[str, Any], name: str, model: Path, out: Path | None) -> str | None:
    """Write the manifest; a model directory that cannot be written to costs a word, not the result."""
    from simplax.io.manifest import write
    from simplax.pretrained.stored import run_of

    if out is not None:
        return str(write(out, record))
    if not model.is_dir():
        return None
    model = run_of(model)  # checkpoints are removed in time
    stamp = record["time"].replace(":", "").replace("-", "")
    try:
        return str(write(model / "evaluations" / f"{name}-{stamp}.json", record))
    except OSError as error:
        say(f"the manifest was not kept in {model}: {error.strerror}")
        return None
