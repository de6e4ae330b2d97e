"""Whether two results are the same: bit for bit, within their intervals, or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EQUAL, WITHIN, DIFFERS = "equal", "within", "differs"
_TOLERANCE = 0.02
"""Numbers without an interval of their own may differ by this share of themselves."""
# how fast it went, what it is called and which code drew it: none of it is a result
_FREE = frozenset(
    (
        "seconds",
        "puzzles_per_second",
        "sampling_seconds",
        "key",
        "code",
        "path",
        "text",
        "low",
        "high",
        "intervals",
    )
)
_NORMAL = 1.96


@dataclass(frozen=True)
class Difference:
    """A number that is not the same: what was stored, what came out, and the stored interval if there is one."""

    name: str
    stored: Any
    now: Any
    interval: tuple[float, float] | None
    within: bool


@dataclass(frozen=True)
class Repeat:
    """`verdict` over `compared` values."""

    verdict: str
    compared: int
    differences: tuple[Difference, ...]


def compare(stored: Any, now: Any) -> Repeat:
    """Every value of a result against that of a second one made in the same way."""
    first, second = _leaves(stored), _leaves(now)
    differences = []
    for name in dict.fromkeys([*first, *second]):
        before, after = first.get(name), second.get(name)
        value, interval = before if before is not None else (None, None)
        other = None if after is None else after[0]
        if not _same(value, other):
            differences.append(Difference(name, value, other, interval, _close(value, other, interval)))
    verdict = EQUAL if not differences else WITHIN if all(one.within for one in differences) else DIFFERS
    return Repeat(verdict, len(first), tuple(differences))


Leaf = tuple[Any, tuple[float, float] | None]


def _leaves(value: Any, name: str = "", interval: tuple[float, float] | None = None) -> dict[str, Leaf]:
    """Values by dotted name, each with its interval."""
    if isinstance(value, Mapping):
        found: dict[str, Leaf] = {}
        for key, inner in value.items():
            if key not in _FREE:
                found |= _leaves(inner, f"{name}.{key}" if name else str(key), _interval(value, str(key)))
        return found
    if isinstance(value, list | tuple):
        if _is_triple(name, value):
            return {name: (value[0], _ends(value[1:]))}
        parts = (_leaves(inner, f"{name}.{index}") for index, inner in enumerate(value))
        return {key: leaf for part in parts for key, leaf in part.items()}
    return {name: (value, interval)}


def _interval(group: Mapping[str, Any], key: str) -> tuple[float, float] | None:
    """As evaluations store them: beside the value, in a table beside it, or as a standard error."""
    if key == "value" and "low" in group:
        return _ends((group["low"], group["high"]))
    ends = group.get("intervals")
    if isinstance(ends, Mapping) and key in ends:
        return _ends(ends[key])
    error = group.get("standard_error")
    if key == "nats_per_token" and isinstance(error, float):
        return group[key] - _NORMAL * error, group[key] + _NORMAL * error
    return None


def _is_triple(name: str, value: Any) -> bool:
    """A value and the ends of its interval, as suites store their `values`."""
    return len(value) == 3 and "values" in name.split(".")[:-1]


def _ends(ends: Any) -> tuple[float, float] | None:
    low, high = ends
    return None if low is None or high is None else (float(low), float(high))


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)


def _close(first: Any, second: Any, interval: tuple[float, float] | None) -> bool:
    if isinstance(first, bool) or not isinstance(first, int | float) or not isinstance(second, int | float):
        return False
    if interval is not None:
        return interval[0] <= second <= interval[1]
    return math.isclose(first, second, rel_tol=_TOLERANCE)
