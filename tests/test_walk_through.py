"""The walk-through of docs/training.md, command by command: two processes, one killed, one, longer, two."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from simplax.cli import main
from simplax.pretrained import from_pretrained

GUIDE = Path(__file__).parents[1] / "docs" / "training.md"
TIMES = {"seconds", "processes", "written", "cost", "command", "time", "manifest"}


def documented() -> list[str]:
    section = GUIDE.read_text().partition("### From two processes to one and back")[2]
    block = re.search(r"```bash\n(.*?)```", section, re.S)
    assert block is not None
    return block[1].splitlines()


def start(command: str) -> subprocess.Popen[str]:
    """A torchrun command as the guide has it, with a port of its own."""
    words = shlex.split(command)
    assert words[0] == "torchrun"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*launcher, *words[1:]], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def simplax(command: str) -> None:
    words = shlex.split(command)
    assert words[0] == "simplax" and main(words[1:]) == 0


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as torchrun gives each process
    yield
    torch.set_num_threads(threads)


def weights(run: str, kind: str) -> dict[str, Tensor]:
    return from_pretrained(run, weights=kind).denoiser.state_dict()  # type: ignore[arg-type]


def apart(one: dict[str, Tensor], two: dict[str, Tensor]) -> float:
    return max(float((one[name] - two[name]).abs().max()) for name in one)


def measured(printed: str) -> dict[str, object]:
    return {name: value for name, value in json.loads(printed).items() if name not in TIMES}


@pytest.mark.slow
def test_two_processes_one_killed_resumed_extended_exported_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train, kill, resume, extend, export, evaluate = documented()
    pair = start(train)
    deadline = time.monotonic() + 200
    while not Path("runs/moved/latest").exists():
        assert pair.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    subprocess.run(["bash", "-c", kill], check=True)
    _, errors = pair.communicate(timeout=100)
    assert pair.returncode != 0 and "SIGKILL" in errors
    assert Path("runs/moved/lock").exists()  # nobody could give it back
    capsys.readouterr()
    simplax(resume)
    said = re.search(r"runs/moved goes on: step (\d+) of 120", capsys.readouterr().err)
    assert said is not None and 20 <= int(said[1]) < 120 and int(said[1]) % 20 == 0
    simplax(extend)
    simplax(export)
    # one process that nothing happened to
    simplax(resume.replace("moved", "calm"))
    early = {kind: weights("runs/calm", kind) for kind in ("ema", "raw")}
    simplax(extend.replace("moved", "calm"))
    for kind, before in early.items():
        calm = weights("runs/calm", kind)
        assert apart(weights("runs/moved", kind), calm) < 0.05 * apart(before, calm)
    exported = weights("runs/moved-model", "auto")
    assert all(torch.equal(exported[name], value) for name, value in weights("runs/moved", "ema").items())
    # two processes measure what one does
    pair = start(f"{evaluate} --json")
    printed, errors = pair.communicate(timeout=100)
    assert pair.returncode == 0, errors
    capsys.readouterr()
    simplax(f"simplax {evaluate.partition(' -- ')[2]} --json")
    assert measured(printed) == measured(capsys.readouterr().out)
