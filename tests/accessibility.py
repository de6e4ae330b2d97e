"""The accessibility checker axe-core, fetched for the tests alone; import the fixture `axe` where it is used."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from typing import Any

import pytest

from browser import Page

AXE = "axe-core@4.14.0"


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of the checker."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is not here to fetch axe-core")
    try:
        done = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("axe-core cannot be fetched here")
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        pytest.skip("axe-core cannot be fetched here")
    with tarfile.open(archives[0]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(page: Page, axe: str) -> list[Any]:
    """Every rule that the page breaks as it stands, and where."""
    page.run(f"if (!window.axe) {{ {axe} }}; 0")
    found: list[Any] = page.run(
        "axe.run().then(found => found.violations.map("
        "rule => [rule.id, rule.nodes.map(node => `${node.target}: ${node.failureSummary}`)]))"
    )
    return found
