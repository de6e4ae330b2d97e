"""Preparation by several processes and machines: the same bytes, whoever did the work and whenever he was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from simplax.cli import main
from simplax.data.text import Options, Part, prepare, prepare_part
from simplax.data.text import chunks as chunks_module
from simplax.errors import UserError

prepare_module = sys.modules[prepare.__module__]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four chunks of molecules with a number each."""
    smiles = ["CCO", "c1ccccc1", "CC(=O)O", "ClCCBr", "C[C@H](N)O" * 3]
    lines = (f"{smiles[i * i % 5] * (1 + i % 7)},{i % 11}\n" for i in range(50_000))
    (tmp_path / "table.csv").write_text("smiles,mass\n" + "".join(lines))
    return tmp_path / "table.csv"


def options(table: Path, **changes: Any) -> Options:
    return Options(str(table), "smiles", columns=("smiles",), labels=("mass:number",), **changes)


def contents(directory: Path) -> dict[str, Any]:
    """Every file; of the manifest what does not tell of the time."""
    found: dict[str, Any] = {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.is_file() and path.name not in ("manifest.json", ".lock")
    }
    manifest = json.loads((directory / "manifest.json").read_text())
    return {**found, "manifest": {key: value for key, value in manifest.items() if key != "made"}}


def run(table: Path, out: Path, workers: int) -> subprocess.Popen[bytes]:
    """A preparation by command that keeps its state all the time."""
    script = (
        "import sys\nif __name__ == '__main__':\n    import simplax.data.text as t\n"
        "    sys.modules['simplax.data.text.prepare']._SECONDS = 0.0\n"
        f"    t.prepare(t.Options({str(table)!r}, 'smiles', columns=('smiles',), labels=('mass:number',)),"
        f" {str(out)!r},"
        f" workers={workers})\n"
    )
    (out.parent / f"{out.name}.py").write_text(script)
    return subprocess.Popen([sys.executable, str(out.parent / f"{out.name}.py")], start_new_session=True)


def descendants(pid: int) -> list[int]:
    try:
        near = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return near + [far for child in near for far in descendants(child)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_one_two_and_three_workers_killed_and_resumed_give_the_same_bytes(
    table: Path, tmp_path: Path
) -> None:
    prepare(options(table), tmp_path / "whole")
    expected = contents(tmp_path / "whole")
    for workers in (1, 2, 3):
        out = tmp_path / f"killed-{workers}"
        process, seen = run(table, out, workers), []
        while not any(out.glob("train-*.bin")):
            assert process.poll() is None
            seen = descendants(process.pid) or seen
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (out / "state.json").exists() and not (out / "manifest.json").exists()
        deadline = time.monotonic() + 30
        while any(_runs(pid) for pid in seen):  # no worker outlives its parent
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert run(table, out, workers).wait() == 0
        assert contents(out) == expected, workers


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_workers_give_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "CHUNK", 300)
    rows = "".join(f"{'CCO' * (1 + i % 9)},{i}\n" for i in range(200))
    (tmp_path / "t.csv").write_text("smiles,mass\n" + rows)
    prepare(options(tmp_path / "t.csv"), tmp_path / "one")
    prepare(options(tmp_path / "t.csv"), tmp_path / "two", workers=2)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    (tmp_path / "t.csv").write_text("smiles,mass\n" + rows + "CC?!,1\n")
    with pytest.raises(UserError, match="is not SMILES at position 3"):  # told by a worker
        prepare(options(tmp_path / "t.csv"), tmp_path / "bad", workers=2)
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("layout", ["learned_end", "packed"])
def test_parts_are_put_together_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setattr(chunks_module, "CHUNK", 200)
    lines = "".join(json.dumps({"text": "one two three " * (i % 9)}) + "\n" for i in range(90))
    (tmp_path / "t.jsonl").write_text(lines)
    chosen = Options(str(tmp_path / "t.jsonl"), "characters", length=20, layout=layout)
    prepare(chosen, tmp_path / "whole")
    done = [prepare_part(chosen, tmp_path / "parts", Part(number, 3)) for number in (3, 1, 2)]
    assert min(done) > 3 and len(list((tmp_path / "parts" / "chunks").iterdir())) == sum(done)
    (tmp_path / "parts" / "chunks" / "00000002.npz").write_bytes(b"cut short")
    (tmp_path / "parts" / "chunks" / "00000005.npz").unlink()  # a machine that never came back
    with pytest.raises(UserError, match="begun with other options"):
        prepare_part(
            Options(str(tmp_path / "t.jsonl"), "characters", length=9), tmp_path / "parts", Part(1, 3)
        )
    prepare(chosen, tmp_path / "parts")
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert not (tmp_path / "parts" / "chunks").exists()
    assert prepare_part(chosen, tmp_path / "parts", Part(1, 3)) == 0  # finished: nothing left to do


def test_parts_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.smi").write_text("CCO ethanol\n\nCC\nc1ccccc1\n" * 5)
    command = ["data", "sequences", str(tmp_path / "t.smi"), "--out", str(tmp_path / "out"), "--workers", "1"]
    for part in ("1/2", "2/2"):
        assert main([*command, "--part", part, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["part"] == part
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["train"]["documents"] == 14
    for wrong in ("0/2", "3/2", "1", "a/b", "1/2/3"):
        assert main([*command, "--part", wrong]) == 2
        assert "a part is" in capsys.readouterr().err
    assert main([*command[:-1], "0"]) == 0  # it is finished: nobody works
    assert os.listdir(tmp_path / "out")
