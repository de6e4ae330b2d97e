"""`simplax figure molecules RESULT...`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        tyro.conf.arg(
            metavar="RESULT",
            help="manifests that `simplax evaluate MODEL molecules` wrote, or directories of a suite of molecules",
        ),
    ],
    /,
    *,
    names: Annotated[
        tuple[str, ...] | None,
        tyro.conf.arg(help="names of the lines, one per result; the models' if not given"),
    ] = None,
    title: Annotated[str | None, tyro.conf.arg(help="above the figure")] = None,
    errors_at: Annotated[
        int, tyro.conf.arg(help="network calls at which errors are shown by kind; the nearest a model has")
    ] = 32,
    out: Annotated[
        Path, tyro.conf.arg(help="image file; without an ending both .png and .svg are written")
    ] = Path("molecules"),
    json: Json = False,
) -> None:
    """Validity and FCD against network calls, a line per model, with the floor of training molecules; and a second
    picture, FILE-errors, of invalid strings by kind."""
    from simplax.viz.figures import both_formats, image
    from simplax.viz.molecules import draw_calls, draw_errors

    if not results:
        raise UserError("name at least one result of `simplax evaluate MODEL molecules`.")
    if names is not None and len(names) != len(results):
        raise UserError(f"give one name per result: {len(results)} results but {len(names)} names.")
    files = [image(path) for path in both_formats(out)]
    bars = [path.with_stem(f"{path.stem}-errors") for path in files]
    check_targets(*files, *bars)
    points = []
    for number, path in enumerate(results):
        found = suite_points(path) if path.is_dir() else [point(path)]
        points += [{**one, "name": names[number]} if names else one for one in found]
    numbers = {one["num"] for one in points}
    told = title or (f"{numbers.pop():,} strings each" if len(numbers) == 1 else "numbers of strings differ")
    written = draw_calls(points, files, title=told)
    sets = error_sets(points, errors_at)
    if sets:
        written += draw_errors(sets, bars, title=told)
    emit(json, {"points": points, "files": written}, lambda: "\n".join(written))


def error_sets(points: Sequence[Mapping[str, Any]], calls: int) -> dict[str, tuple[dict[str, int], int]]:
    """Errors by kind and number of strings of every model, where its number of network calls is nearest to `calls`."""
    found: dict[str, tuple[dict[str, int], int]] = {}
    for name in dict.fromkeys(one["name"] for one in points):
        near = min(
            (one for one in points if one["name"] == name), key=lambda one: abs(math.log(one["nfe"] / calls))
        )
        if near["errors"] is not None:
            found[f"{name}, {near['nfe']:.0f} calls"] = near["errors"], near["num"]
    return found


def point(path: Path) -> dict[str, Any]:
    """What the figure needs of one manifest."""
    from simplax.io.manifest import read

    record, _ = read(path)
    try:
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
            "floor_num": (result.get("floor") or {}).get("num_valid"),
            "errors": result.get("errors"),
        }
    except (KeyError, TypeError, AttributeError):
        raise UserError(
            f"{path} is not what `simplax evaluate MODEL molecules` writes: name a file in MODEL/evaluations."
        ) from None


def suite_points(directory: Path) -> list[dict[str, Any]]:
    """The points of every row of a suite; its floor is that of as many training molecules as strings were drawn.

    A row whose settings are not those it was measured with says so.
    """
    from simplax.suites.catalogue import declare
    from simplax.suites.molecules_suite import FLOOR, MoleculesBenchmark
    from simplax.suites.store import Store, read, started, stored_options

    stored = stored_options(directory)
    suite = None if stored is None else declare(*stored)
    if suite is None or not isinstance(suite.benchmark, MoleculesBenchmark):
        raise UserError(f"{directory} holds no suite of molecules: see `simplax suite run molecules`.")
    store = Store.at(directory)
    floor = (read(store.reference(FLOOR)) or {}).get("points", {})
    points: dict[tuple[str, float], dict[str, Any]] = {}
    for entry in suite.entries:
        record = read(store.result(entry, suite.seeds[0])) or {}
        now = started(store, suite, entry, suite.seeds[0]) is not None
        title = entry.title if now else f"{entry.title}, earlier settings"
        for calls, measured in record.get("points", {}).items():
            # some methods need more calls, and some make the same number whatever is asked for
            if f"{calls} valid" in measured["values"]:
                points.setdefault((title, measured["nfe"]), _suite_point(title, calls, measured, floor))
    return list(points.values())


def _suite_point(
    title: str, calls: str, measured: Mapping[str, Any], floor: Mapping[str, Any]
) -> dict[str, Any]:
    values, distance = measured["values"], f"{calls} FCD"
    valid, *shares = values[f"{calls} valid"]
    return {
        "name": title,
        "nfe": measured["nfe"],
        "num": measured["num"],
        "num_valid": round(valid * measured["num"]),
        "temperature": measured["setting"]["temperature"],
        "valid": valid,
        "valid_interval": shares,
        "FCD/Test": values[distance][0],
        "FCD/Test_interval": values[distance][1:] if None not in values[distance] else None,
        "floor": floor.get("values", {}).get(distance, [None])[0],
        "floor_num": floor.get("num"),
        "errors": measured["facts"].get("errors"),
    }
