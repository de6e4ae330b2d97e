"""The other verbs, help without heavy imports, and every kind of bad input: exit 2 and one sentence."""

from __future__ import annotations

import builtins
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simplax import __version__
from simplax.cli import GROUPS, VERBS, main
from simplax.cli.verbs.data import DATA
from simplax.cli.verbs.evaluate import EVALUATIONS
from simplax.cli.verbs.figure import FIGURES
from simplax.cli.verbs.suite import COMMANDS as SUITE

HELPS = [
    ["--help"],
    *([verb, "--help"] for verb in VERBS),
    *(["evaluate", "MODEL", name, "--help"] for name in EVALUATIONS),
    *(["data", name, "--help"] for name in DATA),
    *(["figure", name, "--help"] for name in FIGURES),
    *(["suite", name, "--help"] for name in SUITE),
]


def test_help_and_version_import_nothing_heavy() -> None:
    script = f"""
import sys
from simplax.cli import main
for arguments in {[*HELPS, ["--version"]]}:
    assert main(arguments) == 0, arguments
assert not [name for name in ("torch", "numpy", "matplotlib", "numba") if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for words in (*VERBS, *EVALUATIONS, *DATA, "--device", "--weights", "--json", f"simplax {__version__}"):
        assert words in done.stdout


CHOOSERS = [[verb, "--help"] for verb in ("evaluate", "data", "figure", "suite")]
LEAVES = [help for help in HELPS[1:] if help not in CHOOSERS]


@pytest.mark.parametrize("arguments", LEAVES, ids=" ".join)
def test_every_verb_offers_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "--json" in capsys.readouterr().out


def test_listings_parse_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    def listing(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    from simplax.methods import METHODS
    from simplax.recipes import RECIPES

    assert set(listing("recipes")) == set(RECIPES)
    methods = listing("methods")
    assert methods and set(methods) <= set(METHODS)
    examined = listing("doctor")
    assert {"versions", "device", "gflops", "threads", "extras", "advice"} <= set(examined)
    assert examined["thread_speedup"] > 0 and examined["allocation_cost"] > 0
    assert any("precision `auto`" in line for line in examined["advice"])
    assert examined["precision"] == ("bfloat16" if "cuda" in examined["device"] else "float32")


def test_listings_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["recipes"], ["toy", "simplax", "Markov chain"]),
        (["recipes", "toy"], ["toy-simplax", "elbo weighting"]),
        (["recipes", "toy-simplax"], ["--method.concentration", "--run.optimizer.betas", "0.9,0.999"]),
        (["methods"], ["simplax", "left to right", "Sahoo et al."]),
    ):
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert all(word in printed for word in words)
        assert not any(line != line.rstrip() for line in printed.splitlines())


def test_sudoku_pools_are_described(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simplax.data import sudoku
    from simplax.data.sudoku import Pool, PuzzleSet, generate_range

    boards = generate_range(0, 4, 40)
    monkeypatch.setattr(sudoku, "pool", lambda clues: Pool(clues, PuzzleSet(boards[:, 0], boards[:, 1]), 4))
    monkeypatch.setattr(Pool, "valid", property(lambda self: self.puzzles[2:]))
    assert main(["data", "sudoku", "--clues", "40", "35", "--json"]) == 0
    pools = json.loads(capsys.readouterr().out)["pools"]
    assert [row["clues"] for row in pools] == [40, 35]
    assert pools[0]["evaluate"] == sum(pools[0]["clue_counts"].values()) == 2


MISTAKES = {
    "unknown verb": (["trian"], "no command 'trian'; did you mean train?"),
    "unknown option": (["--loud"], "no option '--loud'"),
    "unknown recipe": (["train", "sudoku4-simplx"], "did you mean sudoku4-simplax?"),
    "recipe left out": (["train"], "RECIPE is missing: give one of `simplax recipes`"),
    "wrong flag": (["train", "toy-udlm", "--smok"], "no option '--smok'; did you mean --smoke?"),
    "wrong flag of sample": (["sample", "somewhere", "--nmu", "3"], "no option '--nmu'; did you mean --num?"),
    "wrong setting": (["train", "toy-udlm", "--run.stesp", "3"], "did you mean run.steps?"),
    "wrong section": (["train", "toy-udlm", "--rum.steps=3"], "'--rum.steps'; did you mean --run.steps?"),
    "one argument too many": (["methods", "simplax"], "no argument 'simplax'; see simplax methods --help."),
    "setting without a value": (["train", "toy-udlm", "--run.steps"], "--run.steps needs a value"),
    "setting of the wrong type": (
        ["train", "toy-udlm", "--run.steps", "few"],
        "run.steps must be a whole number",
    ),
    "value of the wrong type": (["sample", "somewhere", "--num", "few"], "few"),
    "value out of a choice": (["sample", "somewhere", "--weights", "best"], "'ema', 'raw'"),
    "settings that are not for this verb": (["sample", "somewhere", "--run.steps", "3"], "--run.steps"),
    "unknown model": (["sample", "somewhere"], "no model 'somewhere'"),
    "unknown model to measure": (["evaluate", "somewhere", "likelihood"], "no model 'somewhere'"),
    "nothing to measure": (["evaluate", "somewhere"], "name what to measure"),
    "unknown measurement": (["evaluate", "somewhere", "likelyhood"], "did you mean likelihood?"),
    "unknown data": (["data", "sudoko"], "did you mean sudoku?"),
    "clues that cannot be": (["data", "sudoku", "--clues", "3"], "clues"),
    "unknown recipe to print": (["recipes", "toy-simplx"], "did you mean toy-simplax?"),
    "nothing to plot": (["plot", "somewhere"], "no curve to draw"),
    "missing configuration": (["train", "toy-udlm", "--config", "none.json"], "none.json cannot be read"),
    "unknown device": (["doctor", "--device", "abacus"], "device 'abacus' cannot be used"),
    "unknown device for training": (
        ["train", "toy-udlm", "--device", "abacus"],
        "device 'abacus' cannot be used",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_exit_2_with_one_sentence(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    (line,) = (line for line in captured.err.splitlines() if not line.startswith("training "))
    assert line.startswith("simplax: ")
    assert message in line
    assert captured.out == ""
    assert not list(tmp_path.iterdir())


def test_a_process_of_its_own_tells_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simplax", "train", "sudoku4-simplx"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr.strip() == "simplax: there is no recipe 'sudoku4-simplx'; did you mean sudoku4-simplax?"
    )


def test_the_console_command_names_main() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"simplax": "simplax.cli:main"}


def test_nothing_asked_shows_the_help_and_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["evaluate"], ["data"]):
        assert main(arguments) == 2
        assert "usage: simplax" in capsys.readouterr().out


def test_interruptions_exit_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from simplax.cli.verbs import methods

    def interrupted(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(methods, "main", interrupted)
    assert main(["methods"]) == 130
    assert capsys.readouterr().err == "simplax: interrupted.\n"


def test_figures_without_matplotlib_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["plot", str(tmp_path)]) == 2
    assert 'pip install "simplax[plot]"' in capsys.readouterr().err


def test_public_names_are_lazy_and_real() -> None:
    script = "import sys, simplax; assert 'torch' not in sys.modules; simplax.sample; print(sorted(simplax.__all__))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    import simplax

    for name in simplax.__all__:
        assert getattr(simplax, name) is not None
        assert name in dir(simplax)
    assert simplax.samplers.Simplax(eta=0.5).eta == 0.5
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        simplax.nonsense  # noqa: B018


def test_every_verb_is_listed_once_and_every_group_has_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for verb, (_, what) in VERBS.items():
        assert len(re.findall(rf"^  {verb} +{re.escape(what)}$", printed, re.M)) == 1, verb
    assert {verb for verbs in GROUPS.values() for verb in verbs.split()} <= set(VERBS)
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.slow
def test_torchrun_leaves_options_after_the_separator_alone(tmp_path: Path) -> None:
    """`--num` is the beginning of options of torchrun, which claims it wherever it stands unless `--` comes before."""
    assert main(["train", "toy-udlm", "--smoke", "--out", str(tmp_path / "run")]) == 0
    guide = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
    (documented,) = re.findall(r"^(torchrun .* evaluate RUN .*--num .*)$", guide, re.M)
    words = documented.replace("RUN", str(tmp_path / "run")).split()
    command = [sys.executable, "-m", "torch.distributed.run", *words[1:], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)  # printed once, by the first process
    assert measured["sequences"] == 16
    assert len(list((tmp_path / "run" / "evaluations").iterdir())) == 1


def test_a_leading_separator_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--", "--version"]) == 0
    assert capsys.readouterr().out == f"simplax {__version__}\n"
