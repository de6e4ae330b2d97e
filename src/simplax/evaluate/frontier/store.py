"""Results kept by the hash of what decides them: what was done once is not done again, what changed is."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from simplax.io.digest import digest as digest
from simplax.io.digest import with_digest, without_digest
from simplax.io.files import replacing, write_json
from simplax.samplers.base import WORK, Counted

# the code that decides which tokens are drawn, besides the method's and the sampler's own, and what is measured on them
SAMPLING = (
    "concentration.py", "functional", "nn", "processes", "random.py", "samplers/base.py", "samplers/batches.py",
    "samplers/endings.py", "samplers/kappa.py", "samplers/loop.py", "samplers/transforms.py", "samplers/udlm.py",
    "samplers/vectors.py", "schedules.py", "times.py",
)  # fmt: skip
MEASURING = (
    "evaluate/entropy.py",
    "evaluate/text",
    "evaluate/frontier/curve.py",
    "evaluate/frontier/yardstick.py",
    "data/text/tokenizers.py",
    "data/text/subwords.py",
    "data/text/lengths.py",
)
_ROOT = Path(__file__).parents[2]


@cache
def code(parts: tuple[str, ...]) -> str:
    """Of what these files of the package do: comments, docstrings and layout do not count."""
    found = hashlib.sha256()
    for part in parts:
        place = _ROOT / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found.update(path.relative_to(_ROOT).as_posix().encode())
            found.update(ast.dump(_silent(ast.parse(path.read_text(encoding="utf-8")))).encode())
    return found.hexdigest()


def sampling_code(*objects: object) -> str:
    """Of what draws tokens: the parts all share, and the files of these objects' classes and their bases."""
    classes = {one for each in objects for one in type(each).__mro__ if one.__module__.startswith("simplax")}
    files = {Path(inspect.getfile(one)) for one in classes}
    own = sorted(path.relative_to(_ROOT).as_posix() for path in files if path.is_relative_to(_ROOT))
    return code((*SAMPLING, *own))


def _silent(tree: ast.Module) -> ast.Module:
    """The same program without docstrings."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        node.body = [  # type: ignore[attr-defined]
            line for line in body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        ]
    return tree


@dataclass(frozen=True, eq=False)
class Drawn(Counted):
    """`ids` (number, length) in order of their seeds; `nfe` network calls per sequence, counted.

    `block_passes` and `multiply_adds` say what those calls were made of (0: not known).
    """

    ids: np.ndarray
    nfe: float
    num_steps: int
    seconds: float
    block_passes: float = 0.0
    multiply_adds: float = 0.0


@dataclass(frozen=True)
class Store:
    """`points/KEY.json` and `samples/KEY.npz` below a directory; a file that cannot be read, or is not
    as it was written, counts as absent."""

    directory: Path

    def point(self, key: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self._point(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or found.get("key") != key:
            return None
        return without_digest(found)

    def keep_point(self, key: str, record: Mapping[str, Any]) -> None:
        path = self._point(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, with_digest({"key": key, **record}))

    def samples(self, key: str) -> Drawn | None:
        try:
            with np.load(self._samples(key), allow_pickle=False) as found:
                # samples kept by older versions do not say what their calls were made of
                work = {name: float(found[name]) for name in WORK if name in found}
                steps, seconds = int(found["num_steps"]), float(found["seconds"])
                return Drawn(found["ids"], num_steps=steps, seconds=seconds, **work)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def keep_samples(self, key: str, drawn: Drawn) -> None:
        path = self._samples(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = drawn.ids.astype(np.uint16 if drawn.ids.max(initial=0) < 1 << 16 else np.uint32)
        facts: dict[str, Any] = {"num_steps": drawn.num_steps, "seconds": drawn.seconds, **drawn.work()}
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, ids=ids, **facts)

    def _point(self, key: str) -> Path:
        return self.directory / "points" / f"{key[:24]}.json"

    def _samples(self, key: str) -> Path:
        return self.directory / "samples" / f"{key[:24]}.npz"
