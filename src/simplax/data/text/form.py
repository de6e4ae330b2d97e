"""The form of a manifest of prepared data, checked before anything is done with what it says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_LAYOUTS = ("learned_end", "lengths", "packed", "padded")
_BYTES = {"<u2": 2, "<u4": 4}
_LARGEST = 1 << 40


def is_well_formed(manifest: Mapping[str, Any]) -> bool:
    """Whether everything that is read of a manifest is there, of its type, and fits together.

    The digest of a manifest tells of accidents; this is for manifests that were edited, and for old ones without one.
    """
    try:
        return _described(manifest) and _labelled(manifest) and all(
            _held(manifest, split) for split in manifest["splits"].values()
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError):
        return False


def _described(manifest: Mapping[str, Any]) -> bool:
    said = manifest["tokenizer"]
    ids = (said["eos"], said["bos"], manifest.get("end"))
    return (
        _whole(manifest["length"], 1)
        and _whole(manifest["vocab_size"], 1)
        and _whole(manifest["rows_per_shard"], 1)
        and manifest["layout"] in _LAYOUTS
        and manifest["dtype"] in _BYTES
        and isinstance(manifest["wrap"], bool)
        and all(each is None or (_whole(each) and each < manifest["vocab_size"]) for each in ids)
        and isinstance(said["sha256"], str)
        and all(isinstance(manifest["options"][name], str) for name in ("source", "tokenizer"))
        and "train" in manifest["splits"]
    )


def _labelled(manifest: Mapping[str, Any]) -> bool:
    labels = manifest.get("labels", [])
    return isinstance(labels, list) and all(
        set(label) == {"name", "kind", "classes", "mean", "deviation"}
        and isinstance(label["name"], str)
        and label["kind"] in ("class", "number")
        and isinstance(label["classes"], list)
        and bool(label["classes"]) == (label["kind"] == "class")
        and all(isinstance(name, str) for name in label["classes"])
        and all(_number(label[name]) for name in ("mean", "deviation"))
        and label["deviation"] > 0
        for label in labels
    )


def _held(manifest: Mapping[str, Any], split: Mapping[str, Any]) -> bool:
    """One split: its counts, and files that hold its rows."""
    named = manifest["splits"][split["name"]]
    shards = [shard for each in manifest["splits"].values() for shard in each["shards"]]
    counts = split.get("lengths") or []
    return (
        all(_whole(split[name]) for name in ("rows", "first", "documents", "tokens", "dropped", "cut"))
        and isinstance(counts, list)
        and all(map(_whole, counts))
        and len(counts) in (0, manifest["length"] + 1)
        and all(_plain_name(shard["file"]) and _whole(shard["bytes"]) for shard in shards)
        and all(isinstance(shard["sha256"], str) for shard in shards)
        and named is not None
        and _has_room(manifest, split, {shard["file"]: shard["bytes"] for shard in shards})
    )


def _has_room(manifest: Mapping[str, Any], split: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    widths = {".bin": manifest["length"] * _BYTES[manifest["dtype"]]}
    if manifest["layout"] in ("lengths", "padded"):
        widths[".len"] = 4
    if manifest.get("labels"):
        widths[".lab"] = 8 * len(manifest["labels"])
    per_shard, last = manifest["rows_per_shard"], split["first"] + split["rows"]
    if last > sum(sizes.values()):  # no row is smaller than a byte: do not count shards that cannot be there
        return False
    for number in range(-(-last // per_shard)):
        rows = min(per_shard, last - number * per_shard)
        for ending, width in widths.items():
            size = sizes.get(f"{split['name']}-{number:05d}{ending}", -1)
            if size < rows * width or size % width:
                return False
    return True


def _whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _LARGEST


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _plain_name(value: Any) -> bool:
    """A file of the directory itself."""
    return (
        isinstance(value, str)
        and bool(value)
        and "/" not in value
        and "\\" not in value
        and "\0" not in value
    )
