"""Settings of other projects as inert data: found by name, never evaluated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simplax.errors import UserError
from simplax.pretrained.importing.records import Foreign

_REFERENCE = "${"  # how omegaconf begins a value that it would compute
_LARGEST_CONFIG = 1 << 24


@dataclass(frozen=True)
class Settings:
    """The settings of a model; `where` is the file they are in, for messages."""

    root: Any
    where: str

    def get(self, *names: str) -> Any:
        """The value at this path, or None where there is none or where it would have to be computed."""
        node = self.root
        for name in names:
            node = _children(node).get(name)
        value = _value(node)
        computed = isinstance(value, str) and value.startswith(_REFERENCE)
        return None if computed or not isinstance(value, str | int | float | bool) else value

    def number(self, *names: str) -> int | None:
        """A whole number above zero, or None."""
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{self.where} is damaged: {'.'.join(names)} must be a whole number above zero.")
        return value

    def flag(self, *names: str) -> bool | None:
        value = self.get(*names)
        if value is not None and not isinstance(value, bool):
            raise UserError(f"{self.where} is damaged: {'.'.join(names)} must be true or false.")
        return value

    def word(self, *names: str) -> str | None:
        value = self.get(*names)
        if value is not None and not isinstance(value, str):
            raise UserError(f"{self.where} is damaged: {'.'.join(names)} must be a text.")
        return value

    def share(self, *names: str) -> float:
        """A number in [0, 1), zero if it is not said."""
        value = self.get(*names)
        if value is None:
            return 0.0
        if isinstance(value, str | bool) or not 0.0 <= value < 1.0:
            raise UserError(f"{self.where} is damaged: {'.'.join(names)} must lie in [0, 1).")
        return float(value)

    def has(self, name: str) -> bool:
        return name in _children(self.root)


def _children(node: Any) -> Mapping[Any, Any]:
    if isinstance(node, Foreign):
        content = node.state.get("_content") if isinstance(node.state, dict) else None
        return content if isinstance(content, dict) else node.items
    return node if isinstance(node, dict) else {}


def _value(node: Any) -> Any:
    """The value of a leaf: omegaconf keeps it in `_val`."""
    if isinstance(node, Foreign):
        return node.state.get("_val") if isinstance(node.state, dict) else None
    return node


def read_json(path: Path) -> Settings:
    """The JSON object in a file that somebody else wrote."""
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise UserError(f"{path} is too large for a configuration.")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: download it again.") from error
    if not isinstance(data, dict):
        raise UserError(f"{path} must hold a JSON object of settings.")
    return Settings(data, str(path))
