"""Layers: each part of the package imports only its own layer and those before it, inside functions too."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "simplax"
LAYERS = [
    "errors",
    "typing random schedules times concentration io",
    "functional",
    "processes",
    "nn",
    "objectives samplers",
    "methods",
    "data",
    "tasks",
    "train",
    "config",
    "pretrained interop",
    "evaluate viz",
    "recipes",
    "suites",
    "serve",
    "bench cli",
]
RANK = {part: number for number, layer in enumerate(LAYERS) for part in layer.split()}
# file: what it may import from a later layer, for now; a line whose import is gone must go too
EXCEPTIONS: dict[str, set[str]] = {}


def imported(path: Path) -> set[str]:
    """The parts of the package that a file imports anywhere in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("simplax.")}


def test_every_part_has_a_layer() -> None:
    parts = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/*.py")
    }
    assert parts - {"__init__", "__main__"} == set(RANK)


def test_nothing_imports_a_later_layer() -> None:
    later: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE)
        own = file.parts[0].removesuffix(".py")
        if own in RANK:  # the package's own __init__ and __main__ name what they offer
            found = {part for part in imported(path) & set(RANK) if RANK[part] > RANK[own]}
            later |= {file.as_posix(): found} if found else {}
    assert later == EXCEPTIONS
