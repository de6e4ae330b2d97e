"""The notebooks run from the first cell to the last, in a fresh kernel and an empty directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
PROMISED = {  # what the last lines of each must have printed
    "own_sequences": "follow the rule",
    "simplex_state": "atoms instead of",
    "solve_and_watch": "posterior redraw",
}
CELL_SECONDS = 1800  # each takes a minute on an idle machine; this only ends what hangs


def test_notebooks_are_stored_without_outputs() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(PROMISED)
    for path in NOTEBOOKS:
        stored = json.loads(path.read_text())
        assert stored["nbformat"] == 4 and stored["nbformat_minor"] >= 5
        identifiers = [cell["id"] for cell in stored["cells"]]
        assert len(set(identifiers)) == len(identifiers)
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in stored["cells"])


@pytest.fixture
def kernel_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of this interpreter, whatever kernels the machine has, with what it writes in a place of its own."""
    spec = tmp_path / "jupyter" / "kernels" / "here"
    spec.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    described = {"argv": start, "display_name": "here", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(described))
    settings = {"JUPYTER_PATH": tmp_path / "jupyter", "JUPYTER_RUNTIME_DIR": tmp_path / "runtime"}
    settings |= {"IPYTHONDIR": tmp_path / "ipython", "TMPDIR": tmp_path, "OMP_NUM_THREADS": "1"}
    settings["PYTHONPATH"] = ":".join(part for part in sys.path if part and Path(part).is_dir())
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path, kernel_here: None) -> None:
    pytest.importorskip("matplotlib")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook: Any = nbformat.read(path, as_version=4)
    work = tmp_path / "work"
    work.mkdir()
    nbclient.NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        startup_timeout=600,
        kernel_name="here",
        resources={"metadata": {"path": str(work)}},
    ).execute()
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    said = "".join(output.text for output in outputs if output.get("name") == "stdout")
    assert PROMISED[path.stem] in said
    drawn = sum("image/png" in output.get("data", {}) for output in outputs)
    assert drawn == sum("plt.show()" in cell.source for cell in cells)
