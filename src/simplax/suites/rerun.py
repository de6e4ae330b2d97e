"""A row of a suite measured again, from its own record and the weights beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from simplax.config import codec
from simplax.config.run import FAMILIES
from simplax.errors import UserError, nearest
from simplax.pretrained.model import from_pretrained
from simplax.suites.benchmark import Benchmark, Surroundings
from simplax.suites.catalogue import BENCHMARKS
from simplax.suites.declared import Setting
from simplax.suites.work import plain, with_setting
from simplax.train import precision as precisions


def again(
    record: dict[str, Any],
    model: Path,
    around: Surroundings,
    points: Collection[str] = (),
    progress: Callable[[str, int, int], None] = lambda point, done, total: None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is stored and what comes out now, by point, without what says how fast it went.

    `points` chooses among those that are stored.
    """
    families: codec.Families = {**FAMILIES, Benchmark: BENCHMARKS}
    benchmark: Benchmark = codec.decode(Benchmark, record["benchmark"], families)
    for name in points:
        if name not in record["points"]:
            raise UserError(f"the result has no point {name!r}{nearest(name, list(record['points']))}")
    loaded = from_pretrained(model)
    if loaded.origin["sha256"] != record["manifest"]["model"]["sha256"]:
        raise UserError(
            f"{model} holds other weights than the result was made with: name theirs with --model."
        )
    precisions.apply(record["manifest"]["dtype"]["network"], loaded.denoiser)
    stored, found = {}, {}
    for point in benchmark.points():
        known = record["points"].get(point.key)
        if known is None or "setting" not in known or (points and point.key not in points):
            continue
        lacking = benchmark.missing(point, around)
        if lacking is not None:
            raise UserError(f"{point.key} needs {lacking}.")
        setting: Setting = codec.decode(Setting, known["setting"], families)
        total = benchmark.drawn(point)

        def tell(done: int, key: str = point.key, total: int = total) -> None:
            progress(key, done, total)

        measured = benchmark.measure(with_setting(loaded, setting, point.calls), point, around, tell)
        found[point.key] = plain(measured)
        stored[point.key] = {name: known[name] for name in found[point.key]}
    return stored, found
