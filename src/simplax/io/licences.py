"""Licences of what is installed: the packages that simplax needs, and those that they need in turn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

UNKNOWN = "not stated"
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_LONGEST = 60  # some packages put the whole text of their licence where its name belongs


@dataclass(frozen=True)
class Package:
    """An installed package; `needed_by` is the one that brought it, or an extra of simplax."""

    name: str
    version: str
    licence: str
    needed_by: str


def packages(root: str = "simplax") -> list[Package]:
    """All packages below `root` that are installed, extras of `root` included, by name."""
    found: dict[str, Package] = {}
    queue = [(name, extra or root) for name, extra in _requirements(distribution(root), extras=True)]
    while queue:
        name, parent = queue.pop(0)
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key == root:
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # an extra that was not installed, or another platform's
            continue
        found[key] = Package(key, installed.version, licence_of(installed), parent)
        queue += [(each, key) for each, _ in _requirements(installed, extras=False)]
    return sorted(found.values(), key=lambda package: package.name)


def _requirements(package: Distribution, extras: bool) -> list[tuple[str, str | None]]:
    """Names of what a package requires, with the extra that needs it; those of extras only with `extras`."""
    result = []
    for line in package.requires or []:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name is not None and (extras or extra is None):
            result.append((name[1], None if extra is None else f"[{extra[1]}]"))
    return result


def licence_of(package: Distribution) -> str:
    """The licence a package states: its expression, else its classifiers, else its free text if that is a name."""
    metadata: Any = package.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    marks = [line for line in metadata.get_all("Classifier") or [] if line.startswith("License ::")]
    names = [line.rpartition(" :: ")[2] for line in marks if not line.endswith("OSI Approved")]
    if names:
        return ", ".join(names)
    stated = " ".join(str(metadata.get("License") or "").split())
    return stated if 0 < len(stated) <= _LONGEST else UNKNOWN
