"""What the tests of molecules share: the optional golden values, and skips that say what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

HAS_RDKIT = (
    importlib.util.find_spec("rdkit") is not None and importlib.util.find_spec("fcd_torch") is not None
)
HAS_MOSES = importlib.util.find_spec("moses") is not None
needs_rdkit = pytest.mark.skipif(not HAS_RDKIT, reason="needs the extra molecules")
needs_moses = pytest.mark.skipif(
    not (HAS_RDKIT and HAS_MOSES), reason="needs the extra molecules and the data package molsets"
)


def golden() -> dict[str, Any]:
    root = os.environ.get("SIMPLAX_TEST_DATA")
    path = None if root is None else Path(root) / "molecules" / "golden.json"
    if path is None or not path.is_file():
        pytest.skip("needs molecules/golden.json in SIMPLAX_TEST_DATA")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def perturbed(rows: list[str]) -> list[str]:
    """Training strings damaged by a rule, so that half of them are not valid."""
    made = []
    for i, text in enumerate(rows):
        if i % 4 == 1:
            place = 7 * i % len(text)
            text = text[:place] + text[place + 1 :]
        elif i % 4 == 2:
            place = 5 * i % (len(text) - 1)
            text = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
        elif i % 4 == 3:
            place = 3 * i % len(text)
            text = text[:place] + "CNOcno"[i // 4 % 6] + text[place + 1 :]
        made.append(text)
    return made
