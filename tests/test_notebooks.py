"""The notebooks run from the first cell to the last, in a fresh process and an empty directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
PROMISED = {  # what the last lines of each must have printed
    "own_sequences": "follow the rule",
    "simplex_state": "atoms instead of",
    "solve_and_watch": "posterior redraw",
}


def code(path: Path) -> str:
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_notebooks_are_stored_without_outputs() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(PROMISED)
    for path in NOTEBOOKS:
        stored = json.loads(path.read_text())
        assert stored["nbformat"] == 4 and stored["nbformat_minor"] >= 5
        identifiers = [cell["id"] for cell in stored["cells"]]
        assert len(set(identifiers)) == len(identifiers)
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in stored["cells"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    environment = {**os.environ, "MPLBACKEND": "Agg", "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code(path)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert PROMISED[path.stem] in done.stdout
