"""Several processes give the result of one, bit for bit; they fail together, and leave without a trace.

Run as a program it does commands in one launch of processes: `torchrun ... test_sharding.py '[[...], ...]' DIRECTORY`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectives import assert_parted
from simplax import recipes
from simplax.cli import main
from simplax.io import sharding
from simplax.io.sharding import current, together
from simplax.pretrained.model import Model
from simplax.recipes.launch import build

TIMES = {
    "time",
    "seconds",
    "sampling_seconds",
    "puzzles_per_second",
    "processes",
    "command",
    "written",
    "figures",
    "cost",  # of the share of one process
}


CACHE = tempfile.TemporaryDirectory(prefix="simplax-sharding-")  # of measured floors


def launch(processes: int, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(launcher if processes > 1 else []), *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "SIMPLAX_CACHE": CACHE.name}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, **options)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        own = (
            {"sha256"} if {"result", "sha256"} <= value.keys() else set()
        )  # the digest of a file with its times
        return {name: without_times(one) for name, one in value.items() if name not in TIMES | own}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_one_process_shares_with_nobody() -> None:
    with together() as processes:
        assert processes is current() and processes.size == 1 and processes.first
        assert processes.map(lambda item: item * item, 5) == [0, 1, 4, 9, 16]
        assert processes.on_first(lambda: "x") == "x"
        with pytest.raises(ZeroDivisionError):
            processes.map(lambda item: 1 // item, 2)
    assert sharding.speaks()


# what the processes below do: name, words of the command
COMMANDS = {
    "infill": "infill TEXT <gap:6> ab<gap:3> --num 3 --steps 3 --batch-size 2 --seed 5",
    "solve": "solve 1............... --model SUDOKU --any --attempts 5 --steps 3 --batch-size 2",
    "molecules": "evaluate MOLECULES molecules --num 7 --steps 2 --batch-size 2 --samples OUT/m.smi --out OUT/m.json",
    "sample": "sample TEXT --num 7 --steps 3 --batch-size 2 --seed 3",
    "given": "sample SUDOKU --num 5 --given --batch-size 2",
    "likelihood": "evaluate TEXT likelihood --num 9 --draws 2 --batch-size 4",
    "sudoku": "evaluate SUDOKU sudoku --clues 6 0 --num 7 --batch-size 3 --steps 4 --out OUT/sudoku.json",
    "sweep": "sweep SUDOKU --clues 6 --eta 0.1 1 --steps 2 --num 5 --batch-size 2 --out OUT/sweep",
    "generative": "evaluate TEXT generative --num 6 --steps 2 --batch-size 2 --scorer SCORER --out OUT/g.json",
    "frontier": "frontier TEXT --num 6 --steps 2 --temperatures 0.8 1 --batch-size 2 --scorer SCORER --out OUT/front",
}
FRONTIER = "frontier TEXT --num 6 --steps 2 3 --temperatures 0.8 0.9 1 --batch-size 2 --scorer SCORER --json"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip("transformers")
    pytest.importorskip("matplotlib")
    pytest.importorskip("fcd_torch")
    import sudoku_models
    import test_scorers
    import text_study

    folder = tmp_path_factory.mktemp("models")
    prepared = text_study.corpus(folder)
    text_study.model(prepared, "simplax").save_pretrained(folder / "text")
    sudoku_models.model("sudoku4-simplax").save_pretrained(folder / "sudoku")
    test_scorers.make(folder / "scorer")
    molecules = recipes.smoke(recipes.get("moses-udlm"))
    Model(build(molecules).eval(), molecules).save_pretrained(folder / "molecules")
    return {name.upper(): str(folder / name) for name in ("text", "sudoku", "scorer", "molecules")}


def results(models: dict[str, str], out: Path, processes: int) -> dict[str, Any]:
    names = {**models, "OUT": str(out)}
    words = {
        name: [re.sub("^[A-Z]{3,}", lambda found: names[found[0]], word) for word in one.split()]
        for name, one in COMMANDS.items()
    }
    out.mkdir()
    done = launch(processes, __file__, json.dumps(words), str(out))
    assert done.returncode == 0, done.stderr
    found = {name: json.loads((out / f"{name}.stdout").read_text()) for name in COMMANDS}
    assert "sampling" in (out / "stderr").read_text()  # on a terminal there is a bar
    for rank in range(1, processes):
        assert (out / f"stderr-{rank}").read_text() == ""
        assert [(out / f"{name}.stdout-{rank}").read_text() for name in COMMANDS] == [""] * len(COMMANDS)
    return found


@pytest.fixture(scope="module")
def one(models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("one") / "out"
    return out, results(models, out, 1)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_give_the_bits_of_one(
    models: dict[str, str], one: tuple[Path, dict[str, Any]], processes: int, tmp_path: Path
) -> None:
    expected, out = one[1], tmp_path / "out"
    found = results(models, out, processes)
    for name in COMMANDS:
        assert without_times(found[name]) == without_times(expected[name]), name
    assert found["sample"]["manifest"]["processes"] == processes
    files = {str(path.relative_to(out)) for path in out.rglob("*") if not re.search("std...-", path.name)}
    assert files == {str(path.relative_to(one[0])) for path in one[0].rglob("*")}
    assert (out / "m.smi").read_bytes() == (one[0] / "m.smi").read_bytes()
    for name in ("points", "samples"):  # one process finds everything done
        assert sorted(os.listdir(out / "front" / name)) == sorted(os.listdir(one[0] / "front" / name))


FAILS = """
import sys
from simplax.errors import UserError
from simplax.io.sharding import together
import simplax.cli as cli

def verb(arguments):
    from simplax.io.sharding import current
    rank = current().rank
    if sys.argv[1] == "between" and rank == 1:
        raise UserError("the second process cannot go on: help it.")
    def work(item):
        if sys.argv[1] == "work" and item == 1:
            raise UserError("the second piece cannot be done: leave it out.")
        return item
    current().map(work, 4)

cli.entry = lambda module, name: verb
sys.exit(cli.main(["sample"]))
"""


@pytest.mark.slow
def test_processes_fail_together_with_one_sentence(tmp_path: Path) -> None:
    """A mistake of all, of one between exchanges, of one in its share: status 2 everywhere, no wait, said once."""
    script = tmp_path / "fails.py"
    script.write_text(FAILS)
    for kind, words in (
        ("between", "the second process cannot go on"),
        ("work", "the second piece cannot be done"),
    ):
        done = launch(3, str(script), kind)
        assert done.stderr.count(words) == 1, done.stderr
        assert "Traceback (most recent call last)" not in done.stderr.split("torch/distributed")[0]
        assert "exitcode  : 2 " in done.stderr and "SIGABRT" not in done.stderr
    done = launch(2, "-m", "simplax", "--", "sample", "no-such-model", "--num", "2")
    assert done.stderr.count("there is no model 'no-such-model'") == 1, done.stderr
    assert "SIGABRT" not in done.stderr


def frontier_words(models: dict[str, str], out: Path) -> list[str]:
    return ["-m", "simplax", *(models.get(word, word) for word in FRONTIER.split()), "--out", str(out)]


def start(models: dict[str, str], out: Path) -> subprocess.Popen[str]:
    command, env = [sys.executable, *frontier_words(models, out)], {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
def test_two_workers_share_a_frontier_and_one_is_killed(models: dict[str, str], tmp_path: Path) -> None:
    """Every point once, none lost; the survivor takes over what the dead one held, and writes the report of one."""
    out, points = tmp_path / "shared", tmp_path / "shared" / "points"
    doomed = start(models, out)
    until(lambda: points.is_dir() and len(list(points.glob("*.json"))) >= 3)
    until(lambda: any((out / "claims").glob("[!.]*")))
    before = {path: path.read_bytes() for path in points.glob("*.json")}
    other = start(models, out)
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate()
    printed, errors = other.communicate(timeout=200)
    assert other.returncode == 0, errors
    assert all(path.read_bytes() == content for path, content in before.items())  # never done again
    assert len(list(points.glob("*.json"))) == 1 + 8 + 6 and not list((out / "claims").glob("[!.]*"))
    alone = launch(1, *frontier_words(models, tmp_path / "alone"))
    assert without_times(json.loads(printed)) == without_times(json.loads(alone.stdout))


@pytest.mark.slow
def test_two_workers_at_once_do_every_point_once(models: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "shared"
    workers = [start(models, out) for _ in range(2)]
    ends = [worker.communicate(timeout=200) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], ends
    first, second = (without_times(json.loads(printed)) for printed, _ in ends)
    assert first == second
    lines = [line for _, errors in ends for line in errors.splitlines() if ": PPL" in line]
    made = [line.split("]")[1].split(": PPL")[0] for line in lines]
    assert len(made) == len(set(made)) == 1 + 8 + 6  # each says what it made


class Terminal(io.StringIO):
    """Where progress is shown."""

    def isatty(self) -> bool:
        return True


def commands(jobs: dict[str, list[str]], out: Path) -> int:
    """All jobs, what each prints in a file of its own, and what a terminal would have shown besides."""
    with together() as processes, contextlib.redirect_stderr(Terminal()) as shown:
        ending = "" if processes.first else f"-{processes.rank}"
        try:
            for name, words in jobs.items():
                with open(out / f"{name}.stdout{ending}", "w") as file, contextlib.redirect_stdout(file):
                    measures = small_references() if name == "molecules" else contextlib.nullcontext()
                    with measures:
                        status = main([*words, "--json"])
                if status > 1:  # 1: no answer was found, as is usual without training
                    raise AssertionError(f"{name} ended with {status}: {shown.getvalue()}")
        finally:
            (out / f"stderr{ending}").write_text(shown.getvalue())
    assert_parted()
    return 0


@contextlib.contextmanager
def small_references() -> Iterator[None]:
    """A few molecules in place of the published references, which take seconds to load."""
    from simplax.data.molecules.canonical import canonical
    from simplax.evaluate.molecules import references as module
    from simplax.evaluate.molecules.statistics import Statistics
    from test_molecules_cli import TRAIN

    train = [str(canonical(text)) for text in TRAIN]
    made = module.References("moses", Statistics.of(train[::2]), Statistics.of(train[1::2]), train)
    published = module.references
    module.references = lambda name, **options: made  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        module.references = published


if __name__ == "__main__":
    sys.exit(commands(json.loads(sys.argv[1]), Path(sys.argv[2])))
