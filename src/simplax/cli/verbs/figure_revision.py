"""`simplax figure revision RESULT.json...`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import check_targets, emit
from simplax.cli.parsing import Json
from simplax.errors import UserError


def revision(
    results: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RESULT",
            help="manifests of `simplax evaluate MODEL sudoku --revision` or of `simplax evaluate MODEL revision`",
        ),
    ],
    /,
    *,
    names: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(help="names of the results; the models' if not given")
    ] = None,
    title: Annotated[str, tyro.conf.arg(help="above the figure")] = "Revision per step",
    out: Annotated[
        Path, tyro.conf.arg(help="image file; without an ending both .png and .svg are written")
    ] = Path("revision"),
    json: Json = False,
) -> None:
    """Edits per step, right positions kept and wrong ones corrected, and decoded answers that are right."""
    from simplax.viz.figures import both_formats, image
    from simplax.viz.revision import draw_revision

    if not results:
        raise UserError("name at least one result of `simplax evaluate MODEL sudoku --revision`.")
    if names is not None and len(names) != len(results):
        raise UserError(f"give one name per result: {len(results)} results but {len(names)} names.")
    files = [image(path) for path in both_formats(out)]
    check_targets(*files)
    paths: dict[str, Any] = {}
    for number, path in enumerate(results):
        paths |= _measured(path, None if names is None else names[number])
    written = draw_revision(paths, files, title=title)
    emit(json, {"lines": list(paths), "files": written}, lambda: "\n".join(written))


def _measured(path: Path, name: str | None) -> dict[str, Any]:
    """The lines of one manifest: one per clue count, if it has several."""
    try:
        record = json_module.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in record["result"] if row["revision"] is not None]
        own = name or str(record["model"]["name"])
        lines = {
            own if row.get("clues") is None else f"{own}, {row['clues']} clues": row["revision"]
            for row in rows
        }
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        lines = {}
    if not lines:
        raise UserError(
            f"{path} holds no revision: measure it with `simplax evaluate MODEL sudoku --revision`."
        )
    return lines
