"""Stored results read back: their rows, and the settings that must agree before two of them compare."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simplax.errors import UserError
from simplax.io import manifest

# what may differ between results that compare: when, where from and how fast; the model is what is compared
_log = logging.getLogger(__name__)
_FREE = frozenset(
    (
        "sha256",
        "format",
        "time",
        "command",
        "threads",
        "processes",
        "seconds",
        "result",
        "nfe",
        "block_passes",
        "multiply_adds",
        "model",
        "models",
        "written",
        "complete",
        "evaluation",
        "compiled",
    )
)
_FREE_BELOW = ("versions.python", "protocol.name", "sweep.weights", "sweep.sampler")
_OWN = "sampler"
"""A sampler's settings compare only with those of the same kind: each method has its own."""
_ROW = "temperature, "
"""Of one row: it compares where both results have that row."""


@dataclass(frozen=True)
class Line:
    """A row of a result: `values` by column, plain numbers or [value, low, high]."""

    label: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """One file: what was measured, with which settings, in which rows."""

    file: str
    evaluation: str
    settings: dict[str, Any]
    lines: list[Line]

    def differences(self, other: Result) -> dict[str, tuple[Any, Any]]:
        """Settings that are not those of the other: (the other's, its own)."""
        names = [
            name
            for name in {**other.settings, **self.settings}
            if not name.startswith((f"{_OWN}:", _ROW)) or (name in self.settings and name in other.settings)
        ]
        pairs = {name: (other.settings.get(name), self.settings.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def read(path: str | Path) -> Result:
    """A manifest that an evaluation wrote, what it printed with --json, or the directory of a frontier."""
    path = Path(path)
    file = path / "frontier.json" if path.is_dir() else path
    record, intact = manifest.read(file)
    if not intact:
        _log.warning("%s is not as it was written: its numbers may be wrong; measure it again.", file)
    if isinstance(record, dict) and isinstance(record.get("manifest"), dict):
        record = record["manifest"]
    kind = record.get("evaluation") if isinstance(record, dict) else None
    if kind not in _READERS or "result" not in record:
        raise UserError(f"{file} is not a result of simplax: give what evaluate, frontier or sweep wrote.")
    try:
        lines, more = _READERS[kind](record)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise UserError(
            f"{file} is damaged, or of another version of simplax: its {kind} lacks {error}."
        ) from error
    return Result(str(path), str(kind), {**settings(record), **more}, lines)


def settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Everything in a record that decides the numbers, by dotted name."""
    found: dict[str, Any] = {}
    rows = record.get("result")
    if isinstance(rows, list) and rows and all(_OWN in row for row in rows):
        # every row says it for itself
        record = {name: value for name, value in record.items() if name not in (_OWN, "temperature")}
    for name, value in record.items():
        if name == _OWN and isinstance(value, Mapping):
            found.update(_flat(value, f"{_OWN}:{value.get('kind')}"))
        elif name not in _FREE:
            found.update(_flat(value, name))
    described = [record["model"]] if "model" in record else record.get("models", [])
    weights = sorted({str(model.get("weights")) for model in described})
    return {
        **{name: value for name, value in found.items() if not name.startswith(_FREE_BELOW)},
        "weights": ", ".join(weights),
    }


def _flat(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    return {
        key: leaf for part, inner in value.items() for key, leaf in _flat(inner, f"{name}.{part}").items()
    }


Reading = tuple[list[Line], dict[str, Any]]


def _likelihood(record: Mapping[str, Any]) -> Reading:
    result = record["result"]
    names = ("nats_per_token", "bits_per_token", "perplexity", "nats_per_character", "standard_error", "kind")
    values = {name.replace("_", " "): result[name] for name in names if result.get(name) is not None}
    if "empty_carry" in result:
        values["nats per token, empty carry"] = result["empty_carry"]["nats_per_token"]
    more = {name: result[name] for name in ("sequences", "scored_tokens", "draws") if name in result}
    return [Line(record["model"]["name"], values)], more


def _sudoku(record: Mapping[str, Any]) -> Reading:
    values: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for score in record["result"]:
        share = score["validity"] if score["accuracy"] is None else score["accuracy"]
        name = f"solved, {score['clues']} clues" if score["clues"] else "valid, no clues"
        values[name] = [share["value"], share["low"], share["high"]]
        more[f"boards with {score['clues']} clues"] = f"{score['num']} of {score['sha256'][:8]}"
        more |= _used(score, f"{score['clues']} clues")
    return [Line(record["model"]["name"], values)], more


def _eta_sweep(record: Mapping[str, Any]) -> Reading:
    points = record["result"]
    lines = [
        Line(
            f"{record['model']['name']}, eta {p['eta']}, {p['num_steps']} steps",
            {f"{p['measure']}, {p['clues']} clues": [p["value"], p["low"], p["high"]]},
        )
        for p in points
    ]
    more: dict[str, Any] = {"num": sorted({point["num"] for point in points})}
    for point in points:
        more |= _used(point, f"{point['clues']} clues, eta {point['eta']}")
    return lines, more


def _sampler_sweep(record: Mapping[str, Any]) -> Reading:
    from simplax.evaluate.sweep import AXES

    points, lines, more = record["result"], [], dict[str, Any]()
    varied = [name for name in AXES if name != "num_steps" and len({p["settings"][name] for p in points}) > 1]
    for point in points:
        chosen = [
            f"{AXES[name]} {'own' if point['settings'][name] is None else point['settings'][name]}"
            for name in varied
        ]
        label = ", ".join([record["model"]["name"], *chosen, f"{point['num_steps']} steps"])
        share = [point["value"], point["low"], point["high"]]
        lines.append(Line(label, {f"{point['measure']}, {point['clues']} clues": share}))
        more |= _used(point, ", ".join([f"{point['clues']} clues", *chosen, f"{point['num_steps']} steps"]))
    return lines, more


def _used(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The sampler and temperature of one row, if it says them: boards without clues may have their own."""
    if _OWN not in row:
        return {}
    return {
        **_flat(row[_OWN], f"{_OWN}:{row[_OWN]['kind']}, {name}"),
        f"temperature, {name}": row["temperature"],
    }


def _generative(record: Mapping[str, Any]) -> Reading:
    return [Line(record["model"]["name"], _text_values(record["result"]))], {}


def _frontier(record: Mapping[str, Any]) -> Reading:
    result = record["result"]
    lines = []
    for match in result["matches"]:
        between = match["interpolated"]
        values = {
            "T": match["temperature"],
            **_text_values(match),
            "PPL at the data's entropy": None if between is None else list(between.values()),
            "match": "; ".join(match["notes"]),
        }
        lines.append(Line(f"{match['row']}, {match['num_steps']} steps", {"NFE": match["nfe"], **values}))
    lines += [Line(row["row"], _text_values(row)) for row in result["controls"]]
    used = [match["settings"] for match in result["matches"] if "settings" in match]
    names = ("top_p", "device", "dtype", "torch")
    return lines, {f"used.{name}": sorted({str(each[name]) for each in used}) for name in names}


def _text_values(row: Mapping[str, Any]) -> dict[str, Any]:
    columns, ends = row["columns"], row["intervals"]
    return {
        "PPL": [columns["perplexity"], *ends["perplexity"]],
        "entropy": [columns["entropy"], *ends["entropy"]],
        "caught by": ", ".join(row["flags"]),
    }


_READERS: dict[str, Callable[[Mapping[str, Any]], Reading]] = {
    "likelihood": _likelihood,
    "sudoku": _sudoku,
    "eta sweep": _eta_sweep,  # as earlier versions called it
    "sampler sweep": _sampler_sweep,
    "generative": _generative,
    "frontier": _frontier,
}


def by_evaluation(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Only results of the same kind stand side by side."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.evaluation, []).append(result)
    return found
