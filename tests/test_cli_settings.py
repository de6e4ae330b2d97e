"""Settings as flags: listed with default and meaning without torch, read by tyro, applied by the configuration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simplax import config, recipes
from simplax.cli import main, reference, settings
from simplax.cli.meanings import MEANINGS
from simplax.cli.parsing import read
from simplax.cli.verbs import train
from simplax.errors import UserError
from simplax.methods import METHODS, UDLM, Simplax
from simplax.recipes import registry
from simplax.schedules import Polynomial


def test_the_stored_table_is_what_the_recipes_say() -> None:
    made = reference.text(reference.describe(recipes.RECIPES))
    assert settings.TABLE.read_text() == made, "the table is out of date: run `make reference`"


def test_table_of_methods_in_the_docs_is_what_the_methods_say_of_themselves() -> None:
    page = reference.METHODS_PAGE.read_text()
    assert reference.with_table(page) == page, "the table is out of date: run `make reference`"
    assert all(f"| `{name}` |" in page for name in METHODS)


def test_every_setting_has_a_meaning_and_no_meaning_is_left_over() -> None:
    table = reference.describe(recipes.RECIPES)
    for group, content in table["groups"].items():
        for field, (metavar, meaning, _) in content["fields"].items():
            assert metavar and meaning, f"{group}.{field} needs a string below its field that says what it is"
    names = {key.rpartition(".")[2] for key in MEANINGS}
    used = {field for content in table["groups"].values() for field in content["fields"]}
    assert names <= used


@pytest.mark.parametrize("name", ["toy-udlm", "sudoku-cpu-simplax", "text-mini-duo"])
def test_help_lists_every_setting_with_its_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", name, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    single = {"times"}  # of one kind only: there is nothing to choose
    for path, value in config.flatten(config.to_json(recipes.get(name))).items():
        flag = path.removesuffix(".kind").replace("_", "-")
        if path.endswith(".kind") and path.split(".")[-2] in single:
            continue
        assert f"--{flag} " in printed, path
        if value is not None:
            assert f"(default: {settings.shown(value)})" in printed.split(f" --{flag} ", 1)[1], path
    assert "None" not in printed


def test_help_of_a_recipe_needs_no_torch() -> None:
    script = """
import sys
from simplax.cli import main
assert main(["train", "owt-simplax", "--help"]) == 0
assert not [name for name in ("torch", "numpy", "rich") if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--method.concentration" in done.stdout and "\x1b" not in done.stdout


def test_a_recipe_that_is_not_in_the_table_is_described_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    added = recipes.Recipe("toy", "new", "a test", recipes.RECIPES["toy-udlm"].build)
    monkeypatch.setitem(recipes.RECIPES, "toy-new", added)
    assert main(["train", "toy-new", "--help"]) == 0
    assert "--run.optimizer.decay {constant,cosine,linear,wsd}" in capsys.readouterr().out


def changed(*arguments: str) -> config.RunConfig:
    """What `simplax train toy-simplax` would run."""
    flags = settings.flags("toy-simplax")
    call, unknown = read(train.train, ["toy-simplax", *arguments], "simplax train", changes=flags)
    changes = call.keywords["changes"]
    more, mistakes = settings.deeper(unknown)
    assert not mistakes
    return config.resolve(recipes.get("toy-simplax"), None, [*settings.given(changes), *more])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--run.steps", "7"], lambda c: c.run.steps == 7),
        (["--run.batch-size=16", "--run.batch_size", "16"], lambda c: c.run.batch_size == 16),
        (["--run.optimizer.decay", "constant"], lambda c: c.run.optimizer.decay == "constant"),
        (["--run.optimizer.betas", "0.8,0.9"], lambda c: c.run.optimizer.betas == (0.8, 0.9)),
        (["--architecture.soft-cap", "3"], lambda c: c.architecture.soft_cap == 3.0),
        (["--architecture.soft-cap", "None"], lambda c: c.architecture.soft_cap is None),
        (["--architecture", "tiny", "--architecture.dropout", "0"], lambda c: c.architecture.width == 512),
        (["--task.seed", "2", "--name="], lambda c: c.task.seed == 2 and c.name == ""),
        (
            ["--method.weighting", "constant", "--method", "udlm"],
            lambda c: c.method == UDLM(weighting="constant"),
        ),
        (["--method.kind=udlm", "--method.num-steps", "9"], lambda c: c.method == UDLM(num_steps=9)),
        (
            ["--method.schedule.power", "3", "--method.schedule", "polynomial"],
            lambda c: c.method.schedule == Polynomial(3.0),
        ),
        (
            ["--method.concentration", '{"kind": "constant", "value": 2}'],
            lambda c: isinstance(c.method, Simplax),
        ),
    ],
)
def test_flags_change_the_run(arguments: list[str], expected: Any) -> None:
    assert expected(changed(*arguments))


def test_a_number_or_a_name_takes_the_place_of_a_group() -> None:
    flags = settings.flags("sudoku-cpu-simplax")
    words = ["sudoku-cpu-simplax", "--unconditional.sampler.eta", "5", "--sampling.sampler.eta", "per_token"]
    call, _ = read(train.train, words, "simplax train", changes=flags)
    changes = settings.given(call.keywords["changes"])
    value = config.resolve(recipes.get("sudoku-cpu-simplax"), None, changes)
    assert value.unconditional is not None
    assert config.encode(value.unconditional.sampler)["eta"] == 5.0
    assert config.encode(value.sampling.sampler)["eta"]["kind"] == "per_token"


def test_values_that_look_like_flags_and_values_left_out() -> None:
    assert settings.deeper(["--run.x.y", "-3", "--run.z=--a", "--loud", "word"]) == (
        [("run.x.y", "-3"), ("run.z", "--a")],
        ["--loud", "word"],
    )
    assert settings.sections() == set(config.to_json(recipes.get("toy-udlm")))
    for unknown in (["--run.x", "--run.seed"], ["--run.x"]):
        with pytest.raises(UserError, match=r"--run\.x needs a value"):
            settings.deeper(unknown)
    with pytest.raises(UserError, match="steps must be at least 1, got -3"):
        changed("--run.steps", "-3")


def test_the_recipe_may_come_after_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--smoke", "--run.steps", "2", "--out", str(tmp_path / "run"), "--json"]
    assert main(["train", *options, "toy-udlm"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 2


OPTIONAL = [["train"], ["sample"], ["evaluate", "MODEL", "sudoku"], ["frontier"], ["data", "text"], ["bench"]]


@pytest.mark.parametrize("verb", OPTIONAL, ids=" ".join)
def test_options_without_a_default_show_none(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "None" not in printed and "{[" not in printed and "(default: False)" not in printed


def in_a_terminal(*commands: list[str], columns: int = 80) -> tuple[int, str]:
    """Run commands of simplax in one process with its output on a pseudo-terminal: the last status, and all output."""
    import fcntl
    import pty
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    script = f"import sys, simplax.cli as cli; sys.exit([cli.main(words) for words in {list(commands)}][-1])"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    printed = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        printed += chunk
    os.close(leader)
    return process.wait(), printed.decode()


def test_mistakes_at_a_terminal_are_one_plain_sentence() -> None:
    status, printed = in_a_terminal(["sample", "model", "--num", "few"])
    assert status == 2 and "\x1b" not in printed and printed.count("\n") == 1
    assert "few" in printed


def test_listings_of_recipes_fit_a_terminal() -> None:
    status, printed = in_a_terminal(["recipes"], ["recipes", "owt"], ["recipes", "text-mini-simplax"])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", printed).replace("\r", "").splitlines()
    assert status == 0 and max(map(len, lines)) <= 80 and "…" not in printed
    assert "\x1b[" in printed  # a terminal may have colours


def test_families_show_their_methods_and_recipes_what_is_different(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["recipes"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    for recipe in recipes.RECIPES.values():
        assert f" {recipe.label} " in rows[recipe.family]
    assert main(["recipes", "owt"]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^owt-simplax +200,000 +512 +12 x 768 +phase 2 of Simplax: 200 k steps; constant", printed, re.M
    )
    assert "owt-50k" not in printed
    assert main(["recipes", "owt", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == {key: one.description for key, one in recipes.RECIPES.items() if one.family == "owt"}


def test_a_method_that_is_registered_later_has_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "eleventh", UDLM)
    assert registry.every_method({"simplax": Simplax(), "variant": UDLM()}, but=["ar"])["eleventh"] == UDLM()
    assert "ar" not in registry.every_method({}, but=["ar"])
    for family in ("toy", "sudoku4", "sudoku-paper", "text-mini", "owt"):
        monkeypatch.delitem(METHODS, "eleventh", raising=False)
        assert {f"{family}-{name}" for name in METHODS} <= set(recipes.RECIPES)
