"""Several processes that make one file: it is of the first, and whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from simplax.io.files import create_json

RACE = """
import json, sys, time
from pathlib import Path
from simplax.io.files import create_json
folder, me = Path(sys.argv[1]), int(sys.argv[2])
(folder / f"ready-{me}").touch()
deadline = time.monotonic() + 100
while not (folder / "go").exists() and time.monotonic() < deadline:
    pass
mine = [n for n in range(60) if create_json(folder / f"{n}.json", {"by": me, "filling": [me] * 500})]
print(json.dumps(mine))
"""


def test_processes_at_once_never_overwrite(tmp_path: Path) -> None:
    """Each of sixty files is of exactly the process that was told so, with every byte of it."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(tmp_path), str(n)], stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    while len(list(tmp_path.glob("ready-*"))) < len(racers):
        assert all(racer.poll() is None for racer in racers)
    (tmp_path / "go").touch()
    won = [json.loads(racer.communicate(timeout=120)[0]) for racer in racers]
    assert sorted(n for mine in won for n in mine) == list(range(60))
    for me, mine in enumerate(won):
        for n in mine:
            assert json.loads((tmp_path / f"{n}.json").read_text()) == {"by": me, "filling": [me] * 500}
    assert not list(tmp_path.glob(".*"))  # nor is anything left of those that came second
    assert (
        not create_json(tmp_path / "0.json", {}) and json.loads((tmp_path / "0.json").read_text())["filling"]
    )
