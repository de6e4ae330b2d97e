"""The digest of plain data, and records that carry their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST = "sha256"


def digest(value: Any) -> str:
    """Of plain JSON data, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def with_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """As it is to be stored: a digit that changes later is then no other number."""
    content = json.loads(json.dumps(record))  # as it will be read: lists for tuples, text for keys
    content.pop(DIGEST, None)
    return {DIGEST: digest(content), **content}


def without_digest(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was stored, or None if it was changed since; records of older versions have no digest and pass."""
    content = {name: value for name, value in stored.items() if name != DIGEST}
    return content if stored.get(DIGEST) in (None, digest(content)) else None
