"""The examples do what they say."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(name: str, words: str, where: Path) -> Any:
    """What `python examples/NAME.py WORDS --json` prints."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *words.split(), "--json"],
        cwd=where,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def documented(page: str) -> list[str]:
    text = (EXAMPLES.parent / "docs" / page).read_text()
    return re.findall(r"^python examples/own_\w+\.py (.*)$", text, re.M)


def test_a_network_of_ones_own_learns_the_chain() -> None:
    found, data = load("bring_your_own").main(150)
    assert data < found < 1.0  # tokens drawn at random score 3


@pytest.mark.slow
def test_a_method_of_ones_own_is_a_method_like_any_other(tmp_path: Path) -> None:
    words = documented("own-method.md")
    assert command("own_method", words[0], tmp_path)["plain"]["latent"] == "tokens, towards uniform noise"
    assert "toy-plain" in command("own_method", words[1], tmp_path)
    command("own_method", f"{words[2]} --smoke --out runs/toy-plain", tmp_path)
    drawn = command("own_method", f"{words[3]} --num 2", tmp_path)
    assert drawn


@pytest.mark.slow
def test_a_task_of_ones_own_is_learned(tmp_path: Path) -> None:
    words = documented("own-task.md")
    assert "brackets-simplax" in command("own_task", words[0], tmp_path)
    command("own_task", words[1], tmp_path)
    measured = command("own_task", f"{words[3]} --draws 4", tmp_path)
    # 14 balanced words of 8 symbols; a uniform guess would cost log 2 a symbol
    assert math.log(14) / 8 - 0.02 < measured["nats_per_token"] < 0.55
