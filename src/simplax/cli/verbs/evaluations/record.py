"""Where the manifest of an evaluation goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import first_process, say

Out = Annotated[
    Path | None, tyro.conf.arg(help="file for the manifest; MODEL/evaluations/ if MODEL is a directory")
]


def keep(
    record: dict[str, Any], name: str, model: str, out: Path | None, before: str | None = None
) -> str | None:
    """Write the manifest, in the first process only, and return where; beside the model if `out` is not given.

    `before` is what an earlier call for the same record returned: one evaluation has one file, and no two share it.
    If the directory of the model cannot be written to, a line on stderr says so and the result is still printed.
    """
    from simplax.io.manifest import write, write_new
    from simplax.pretrained import is_bundled
    from simplax.pretrained.stored import run_of

    if not first_process():
        return None
    if out is not None:
        return str(write(out, record))
    if is_bundled(model) or not Path(model).is_dir():
        return None
    place = run_of(Path(model))  # checkpoints are removed in time
    stamp = record["time"].replace(":", "").replace("-", "")
    try:
        if before is not None:
            return str(write(before, record))
        return str(write_new(place / "evaluations", f"{name}-{stamp}", record))
    except OSError as error:
        say(f"the manifest was not kept in {place}: {error.strerror}")
        return None
