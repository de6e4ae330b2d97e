"""The list of licences covers what is required, and says so where a package states nothing."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import PackageNotFoundError, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from simplax.cli import main
from simplax.io.licences import UNKNOWN, licence_of, packages

ROOT = Path(__file__).parents[1]


def test_every_core_dependency_is_listed_with_a_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["licences", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in (Requirement(line).name for line in project["dependencies"]):
        assert rows[name]["licence"] != UNKNOWN, name
        assert rows[name]["version"] == distribution(name).version


def test_what_brought_a_package_is_named() -> None:
    found = {each.name: each for each in packages()}
    assert found["torch"].needed_by == "simplax"
    for each in found.values():
        parent = each.needed_by
        assert parent == "simplax" or parent.startswith("[") or parent in found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("License-Expression: MIT\nLicense: something else", "MIT"),
        ("Classifier: License :: OSI Approved :: BSD License", "BSD License"),
        ("License: Apache 2.0", "Apache 2.0"),
        (f"License: {'word ' * 100}", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_how_a_licence_is_found(lines: str, expected: str, tmp_path: Path) -> None:
    text = "\n".join(line for line in ("Metadata-Version: 2.1", "Name: x", "Version: 1", lines) if line)
    (tmp_path / "METADATA").write_text(text + "\n")
    assert licence_of(PathDistribution(tmp_path)) == expected


def test_what_is_not_installed_is_left_out() -> None:
    names = {each.name for each in packages()}
    with pytest.raises(PackageNotFoundError):
        distribution("a-package-that-nobody-made")
    assert "a-package-that-nobody-made" not in names and "simplax" not in names
