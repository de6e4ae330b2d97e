"""Compiling on a machine without a compiler is refused in one sentence, before anything is computed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_without_a_compiler_training_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simplax", "train", "toy-udlm", "--out", "run", "--run.compile", "true"]
    environment = {**os.environ, "CXX": str(tmp_path / "none")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "C++ compiler" in done.stderr and "Traceback" not in done.stderr
    assert "--run.compile" in done.stderr
