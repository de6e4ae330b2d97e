"""`simplax figure molecules RESULT.json...`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import check_targets, emit
from simplax.cli.parsing import Json
from simplax.errors import UserError


def molecules(
    results: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RESULT", help="manifests that `simplax evaluate MODEL molecules` wrote"),
    ],
    /,
    *,
    names: Annotated[
        tuple[str, ...] | None,
        tyro.conf.arg(help="names of the lines, one per result; the models' if not given"),
    ] = None,
    title: Annotated[str | None, tyro.conf.arg(help="above the figure")] = None,
    out: Annotated[
        Path, tyro.conf.arg(help="image file; without an ending both .png and .svg are written")
    ] = Path("molecules"),
    json: Json = False,
) -> None:
    """Validity and FCD against network calls, a line per model, with the floor of training molecules."""
    from simplax.viz.figures import both_formats, image
    from simplax.viz.molecules import draw_calls

    if not results:
        raise UserError("name at least one result of `simplax evaluate MODEL molecules`.")
    if names is not None and len(names) != len(results):
        raise UserError(f"give one name per result: {len(results)} results but {len(names)} names.")
    files = [image(path) for path in both_formats(out)]
    check_targets(*files)
    points = [point(path) for path in results]
    for one, name in zip(points, names or ()):
        one["name"] = name
    numbers = {one["num"] for one in points}
    told = title or (f"{numbers.pop():,} strings each" if len(numbers) == 1 else "numbers of strings differ")
    written = draw_calls(points, files, title=told)
    emit(json, {"points": points, "files": written}, lambda: "\n".join(written))


def point(path: Path) -> dict[str, Any]:
    """What the figure needs of one manifest."""
    try:
        record = json_module.loads(path.read_text(encoding="utf-8"))
        result, ends = record["result"], record["result"]["intervals"]
        return {
            "name": record["model"]["name"],
            "nfe": result["nfe"],
            "num": result["num"],
            "num_valid": result["num_valid"],
            "temperature": record["temperature"],
            "valid": result["valid"],
            "valid_interval": ends.get("valid"),
            "FCD/Test": result["FCD/Test"],
            "FCD/Test_interval": ends.get("FCD/Test"),
            "floor": (result.get("floor") or {}).get("FCD/Test"),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"{path} is not what `simplax evaluate MODEL molecules` writes: name a file in MODEL/evaluations."
        ) from None
