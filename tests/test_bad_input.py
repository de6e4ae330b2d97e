"""Mistakes and damage that a user meets: one sentence, exit status 2, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simplax import recipes
from simplax.cli import main
from simplax.cli.output import check_targets
from simplax.errors import UserError
from simplax.io import manifest
from simplax.io.files import write_text
from simplax.pretrained.model import from_pretrained
from simplax.recipes.launch import launch
from test_cli_train import SMOKE, answer, complaint, here  # noqa: F401  a fixture

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "toy"
    launch(recipes.smoke(recipes.get("toy-simplax")), directory, quiet=True)
    return directory


def copy(run: Path, place: Path) -> Path:
    return Path(shutil.copytree(run, place, symlinks=True))


def test_what_is_not_a_file_is_not_replaced(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = complaint(capsys, "evaluate", str(toy), "likelihood", "--num", "2", "--out", str(pipe))
    assert "is not a file that can be replaced" in line and pipe.is_fifo()


def test_a_link_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to("real/file.json")
    check_targets(tmp_path / "link.json")
    write_text(tmp_path / "link.json", "{}")
    (tmp_path / "lost.json").symlink_to("nowhere/file.json")
    with pytest.raises(UserError, match="cannot be written"):
        check_targets(tmp_path / "lost.json")
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real" / "file.json").read_text() == "{}"


def test_an_export_that_was_damaged_is_not_used(toy: Path, tmp_path: Path) -> None:
    path = from_pretrained(toy).save_pretrained(tmp_path / "export") / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged or was changed.*manifest\.json"):
        from_pretrained(tmp_path / "export")
    config = recipes.smoke(recipes.get("toy-simplax"))
    with pytest.raises(UserError, match=r"damaged or was changed.*manifest\.json"):
        launch(config, tmp_path / "run", init_from=tmp_path / "export", quiet=True)


def test_another_start_of_a_run_that_exists_is_refused(
    here: Path,  # noqa: F811
    capsys: Capture,
) -> None:
    answer(capsys, *SMOKE, "--out", "first")
    answer(capsys, *SMOKE, "--out", "second", "--run.steps", "6", "--init-from", "first")
    again = answer(capsys, *SMOKE, "--out", "second", "--run.steps", "6", "--init-from", "first")
    assert again["step"] == 6
    assert "began from nothing" in complaint(capsys, *SMOKE, "--out", "first", "--init-from", "second")
    answer(capsys, *SMOKE, "--out", "third", "--run.seed", "7")
    other = [*SMOKE, "--out", "second", "--run.steps", "6", "--init-from", "third"]
    before = {path: path.read_bytes() for path in Path("second").rglob("*") if path.is_file()}
    assert "began with first" in complaint(capsys, *other, "--sampling.num-steps", "3")
    assert before == {path: path.read_bytes() for path in Path("second").rglob("*") if path.is_file()}
    Path("first").rename("moved")
    assert answer(capsys, *other[:-1], "moved")["step"] == 6  # the same weights at another place


def test_a_start_that_failed_does_not_lock_its_directory(
    here: Path,  # noqa: F811
    capsys: Capture,
) -> None:
    assert "learning_rate" in complaint(
        capsys, *SMOKE, "--out", "run", "--run.optimizer.learning_rate", "nan"
    )
    assert not (here / "run").exists()
    answer(capsys, *SMOKE, "--out", "run", "--run.save_every", "0")
    shutil.rmtree(here / "run" / "checkpoints")
    (here / "run" / "latest").unlink()  # as if it had ended before it saved
    line = complaint(capsys, *SMOKE, "--out", "run", "--run.seed", "2")
    assert "it has saved nothing yet, so remove run/config.json" in line
    (here / "run" / "config.json").unlink()
    assert answer(capsys, *SMOKE, "--out", "run")["step"] == 5


def test_data_that_failed_to_start_may_be_begun_otherwise(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "latin.txt").write_bytes("café\n".encode("latin-1") * 50)
    command = ["data", "text", str(tmp_path / "latin.txt"), "--tokenizer", "characters", "--length", "4"]
    command += ["--out", str(tmp_path / "out")]
    assert main(command) == 2
    assert "--errors replace" in capsys.readouterr().err
    assert answer(capsys, *command, "--errors", "replace")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--length", "0"), "length must be at least 1, got 0"),
        (("--length", "4", "--tokenizer", "integers"), "is not a list of whole numbers"),
    ],
)
def test_options_of_data(arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "t.txt").write_text("some words\n" * 20)
    place = ("--out", str(tmp_path / "out"))
    assert words in complaint(capsys, "data", "text", str(tmp_path / "t.txt"), *arguments, *place)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sample", "--seed", str(2**63 - 1)), "seeds must fit 64 bits"),
        (("sample", "--temperature", "inf"), "and finite, got inf."),
        (("sample", "--temperature", "1e-40"), "temperature must be positive (at least 1e-20)"),
        (("sample", "--given"), "no given positions"),
        (("sample", "--device", "meta"), "cannot be used here"),
    ],
)
def test_ways_of_sampling(arguments: tuple[str, ...], words: str, toy: Path, capsys: Capture) -> None:
    verb, *rest = arguments
    assert words in complaint(capsys, verb, str(toy), *rest)


@pytest.mark.parametrize("key", ["sha256", "progress", "ema_updates", "config", "step"])
def test_a_state_that_lacks_something_is_told(key: str, toy: Path, tmp_path: Path, capsys: Capture) -> None:
    run = copy(toy, tmp_path / "run")
    path = next((run / "checkpoints").glob("step-*")) / "state.json"
    state = json.loads(path.read_text())
    del state[key]
    path.write_text(json.dumps(state))
    assert f"it lacks {key}" in complaint(capsys, "sample", str(run))


def test_a_kind_that_is_no_name_is_told(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    run = copy(toy, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["method"]["kind"] = ["simplax"]
    (run / "config.json").write_text(json.dumps(config))
    assert "is not a kind of" in complaint(capsys, "sample", str(run))


def test_a_folder_that_is_no_checkpoint_is_left_alone(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    run = copy(toy, tmp_path / "run")
    (run / "checkpoints" / "step-old").mkdir()
    assert answer(capsys, "sample", str(run), "--num", "1")["samples"]


def test_figures_say_at_once_what_they_cannot_draw(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    assert "name it .png" in complaint(capsys, "bench", "--quick", "--figure", str(tmp_path / "x.xyz"))
    assert answer(capsys, "plot", str(toy), "--out", str(tmp_path / "x"))["image"] == str(tmp_path / "x.png")
    assert (tmp_path / "x.png").is_file()


def test_a_name_that_leads_elsewhere_is_refused(here: Path, capsys: Capture) -> None:  # noqa: F811
    for name in ("", "..", "../up", "a/b"):
        assert "cannot name a directory" in complaint(capsys, *SMOKE, f"--name={name}")


def test_frontiers_check_numbers_before_they_read_text(capsys: Capture) -> None:
    assert "and finite, got nan" in complaint(capsys, "frontier", "text-mini", "--temperatures", "nan")
    assert "--top-p" in complaint(capsys, "frontier", "text-mini", "--top-p", "0")


def test_a_puzzle_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    from simplax.data.sudoku import load_puzzles

    text = "1234" + "." * 12
    (tmp_path / "p.txt").write_text(text, encoding="utf-8-sig")
    (board,) = load_puzzles(tmp_path / "p.txt")
    assert board[:5].tolist() == [1, 2, 3, 4, 0]


def test_a_closed_output_is_no_accident() -> None:
    command = f"{sys.executable} -m simplax methods >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_a_finished_result_stays_until_another_is_finished(tmp_path: Path) -> None:
    path, partial = tmp_path / "result.json", tmp_path / "result.partial.json"
    assert manifest.write(path, {"complete": False, "result": [0]}) == path
    assert manifest.write(path, {"result": ["of an older version"]}) == path
    assert manifest.write(path, {"complete": False, "result": [0]}) == partial
    assert manifest.write(path, {"complete": True, "result": [1]}) == path
    assert manifest.write(path, {"complete": False, "result": [2]}) == partial
    assert json.loads(path.read_text())["result"] == [1] and json.loads(partial.read_text())["result"] == [2]
    assert manifest.write(path, {"complete": True, "result": [3]}) == path
    assert json.loads(path.read_text())["result"] == [3] and not partial.exists()
