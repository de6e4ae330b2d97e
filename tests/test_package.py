"""The package as a user gets it: built, installed elsewhere, imported, light."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the built wheel in it.

    Dependencies are borrowed from the running environment through a path file. Such a file adds a folder to
    the search path without obeying path files inside it, so the editable install found there stays invisible.
    """
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    borrowed = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "borrowed.pth").write_text("\n".join(borrowed))
    return python


def test_wheel_installs_and_imports_elsewhere(installed: Path, tmp_path: Path) -> None:
    script = """
import importlib.metadata, importlib.resources, json, simplax
print(json.dumps({
    "file": simplax.__file__,
    "version": importlib.metadata.version("simplax"),
    "typed": importlib.resources.files("simplax").joinpath("py.typed").is_file(),
}))
"""
    found = json.loads(run(installed, "-c", script, cwd=tmp_path))
    assert Path(found["file"]).is_relative_to(installed.parents[1])
    assert found["version"] == PROJECT["version"]
    assert found["typed"]


def test_wheel_holds_every_module_and_table(installed: Path, tmp_path: Path) -> None:
    script = "import pathlib, simplax; print(pathlib.Path(simplax.__file__).parent)"
    there = Path(run(installed, "-c", script, cwd=tmp_path).strip())
    here = ROOT / "src" / "simplax"
    for kind in ("*.py", "*.json", "*.js", "*.css", "*.html", "*.svg"):
        expected = {path.relative_to(here) for path in here.rglob(kind)}
        assert expected == {path.relative_to(there) for path in there.rglob(kind)}


def test_import_is_light(tmp_path: Path) -> None:
    heavy = ["matplotlib", "numba", "transformers", "tokenizers", "accelerate", "fastapi", "scipy", "pandas"]
    script = f"import sys, simplax; print([name for name in {heavy} if name in sys.modules])"
    assert run(sys.executable, "-c", script, cwd=tmp_path).strip() == "[]"


def test_console_scripts_point_at_something() -> None:
    for target in PROJECT.get("scripts", {}).values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_constraints_pin_every_named_dependency_inside_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {
        pin.name: pin
        for pin in map(Requirement, (line for line in lines if line and not line.startswith("#")))
    }
    named = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    for requirement in map(Requirement, named):
        (pin,) = pins[requirement.name].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version), requirement
