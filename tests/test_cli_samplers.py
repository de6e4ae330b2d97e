"""`--sampler NAME --sampler.SETTING VALUE`: any sampler of the library on every command that samples."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax import samplers
from simplax.cli import VERBS, main
from simplax.cli.reference import meaning
from simplax.cli.sampling import SamplerChoice
from simplax.concentration import PerToken, Vanishing
from simplax.config.run import FAMILIES, from_json, load, to_json
from simplax.config.sampling import choose_sampler
from simplax.methods import METHODS, Simplax
from simplax.pretrained.model import from_pretrained
from simplax.samplers import SAMPLERS, Ancestral, FirstHitting, MaskedAncestral, Psi, Sampler
from simplax.samplers.kappa import Fixed, FromEta, Kappa, Plateau
from simplax.times import Grid
from sudoku_models import model
from test_sudoku_eval_verbs import complaint, printed

Capture = pytest.CaptureFixture[str]
COMMITTED = Path(__file__).parents[1] / "results" / "sudoku" / "models" / "mdlm"


def sampler(method: str, name: str | None, *settings: str, own: Sampler[Any] | None = None) -> Sampler[Any]:
    pairs = [(word.partition("=")[0], word.partition("=")[2]) for word in settings]
    return choose_sampler(METHODS[method](), own, name, pairs)


def test_settings_are_read_by_the_types_of_the_sampler() -> None:
    assert sampler("udlm", "psi", "kappa=0", "times.power=2.2") == Psi(Fixed(0.0), Grid(power=2.2))
    assert sampler("mdlm", "first-hitting") == FirstHitting()
    eta = sampler("udlm", "psi", "kappa.eta=pertoken:5", "kappa=from_eta", "last=greedy")
    assert eta == Psi(FromEta(PerToken(5.0)), last="greedy")
    assert sampler("udlm", "simplax", "eta=vanish:10:2") == samplers.Simplax(Vanishing(10.0, 2.0))
    assert sampler("udlm", "simplax", "eta=vanishing", "eta.value=3") == samplers.Simplax(Vanishing(3.0))
    assert sampler("udlm", "psi", "times=plateau", "times.level=0.2") == Psi(times=Plateau(0.2))


def test_what_is_not_said_is_as_in_the_models_own_sampler_of_that_kind() -> None:
    own = samplers.Simplax(7.0, times=Grid(power=2.0))
    assert sampler("simplax", None, "last=posterior", own=own) == replace(own, last="posterior")
    assert sampler("simplax", "simplax", own=own) == own
    assert sampler("simplax", "simplax", own=Ancestral()) == samplers.Simplax(Simplax().concentration)
    assert sampler("simplax", "ancestral", own=own) == Ancestral()
    assert sampler("mdlm", None, "times.power=2") == MaskedAncestral(times=Grid(power=2.0))


@pytest.mark.parametrize(
    ("method", "name", "settings", "words"),
    [
        ("udlm", "simplx", [], "there is no sampler 'simplx'; did you mean simplax?"),
        ("udlm", "psi", ["kapa=0"], "sampler.kapa is not a setting; did you mean sampler.kappa?"),
        ("udlm", "psi", ["kappa=2"], "sampler.kappa: kappa must lie in [0, 1], got 2.0."),
        ("udlm", "psi", ["times.power=no"], 'sampler.times.power must be a number, not "no".'),
        ("udlm", "first_hitting", [], "FirstHitting undoes masks, and UDLM is trained on"),
        ("udlm", "simplax", ["reads_w=true", "form=atoms"], "network reads tokens z"),
        ("udlm", "simplax", ["eta=vanish:x"], "'vanish:x' is not a concentration"),
    ],
)
def test_mistakes_are_one_sentence(method: str, name: str, settings: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        sampler(method, name, *settings)


def test_every_sampler_undoes_the_process_of_some_method_and_says_how_exactly() -> None:
    exported = {
        kind for kind in vars(samplers).values() if isinstance(kind, type) and issubclass(kind, Sampler)
    }
    assert exported - {Sampler} == set(SAMPLERS.values()) == set(FAMILIES[Sampler].values())
    for name, kind in SAMPLERS.items():
        assert kind.exactness, f"{name} needs `exactness`: one line on its law, for `simplax samplers`"
        assert any(issubclass(method.process_type, kind.undoes) for method in METHODS.values())
    for method in METHODS.values():
        assert type(method().sampler()) in SAMPLERS.values()


def test_every_setting_of_every_sampler_has_a_meaning() -> None:
    for family in (Sampler, Kappa, Plateau, Grid):
        for kind in FAMILIES[family].values():
            for field in dataclasses.fields(kind):
                assert meaning(kind, field.name), (
                    f"{kind.__name__}.{field.name} needs a string below its field"
                )


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Sampler[Any]]]:
    """A sampler that nobody has heard of, with a setting of its own."""

    @dataclass(frozen=True)
    class Patient(Ancestral):  # type: ignore[misc]
        """Ancestral, with a number that does nothing."""

        exactness = "exact, and slow"
        patience: int = 3
        """how long it waits"""

    monkeypatch.setitem(SAMPLERS, "patient", Patient)
    yield Patient


def test_a_new_sampler_is_known_everywhere_by_its_line_in_the_table(
    registered: Any, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model("sudoku4-udlm").save_pretrained("four")
    assert printed(capsys, 0, "samplers")["patient"] == {
        "undoes": ["tokens drawn from a prior"],
        "methods": ["simplax", "udlm", "duo-base", "duo"],
        "exactness": "exact, and slow",
    }
    settings = printed(capsys, 0, "samplers", "patient")["settings"]
    assert settings["patience"] == {"typed": "INT", "default": "3", "meaning": "how long it waits"}
    chosen = ["--sampler", "patient", "--sampler.patience", "9"]
    drawn = printed(capsys, 0, "sample", "four", "--steps", "2", *chosen)
    assert drawn["manifest"]["sampler"]["patience"] == 9 and drawn["manifest"]["sampler"]["kind"] == "patient"
    printed(capsys, 0, "export", "four", "other", *chosen)
    assert from_pretrained("other").sampler() == registered(patience=9)


def test_a_command_draws_what_the_library_draws(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    four = model("sudoku4-udlm")
    four.save_pretrained("four")
    chosen = ["--sampler", "psi", "--sampler.kappa=0.5", "--time-power", "2"]
    psi = Psi(Fixed(0.5), Grid(power=2.0))
    drawn = printed(capsys, 0, "sample", "four", "--num", "3", "--steps", "4", *chosen)
    expected = from_pretrained("four").sample(3, seeds=0, num_steps=4, sampler=psi)
    assert [row["tokens"] for row in drawn["samples"]] == expected.tokens.tolist()
    measured = printed(
        capsys, 0, "evaluate", "four", "sudoku", "--num", "2", "--steps", "2", "--clues", "6", "0", *chosen
    )
    assert {json.dumps(row["sampler"]) for row in measured["results"]} == {
        json.dumps(measured["manifest"]["sampler"])
    }
    assert measured["manifest"]["sampler"]["kappa"] == {"kind": "fixed", "kappa": 0.5}
    assert printed(capsys, 1, "solve", "1" + "." * 15, "--any", "--model", "four", "--steps", "3", *chosen)[
        0
    ]["nfe"] in (3.0, 4.0)
    swept = ["--sampler", "simplax", "--sampler.last", "posterior", "--eta", "2", "--steps", "3"]
    (point,) = printed(capsys, 0, "sweep", "four", "--clues", "6", "--num", "2", *swept)["points"]
    assert point["sampler"]["last"] == "posterior" and point["nfe"] == 4


def test_two_ways_to_say_one_thing_are_not_mixed(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model("sudoku4-mdlm").save_pretrained("masked")
    for name in ("kappa", "kappa.eta"):  # eta would take its place
        mixed = SamplerChoice("psi")
        with pytest.raises(ValueError, match=f"--eta and --sampler.{name} are the same setting"):
            mixed.with_settings([(name, "0")], {"eta": "5"})
    assert mixed.with_settings([("kappa", "0")], {"eta": None, "time_power": 2.0}).settings
    assert "--eta and --sampler.eta are the same setting" in complaint(
        capsys, "sample", "masked", "--sampler", "simplax", "--sampler.eta", "1", "--eta", "2"
    )
    assert "--time-power and --sampler.times.power" in complaint(
        capsys, "sample", "masked", "--time-power", "1", "--sampler.times.power=2"
    )
    assert "FirstHitting has no concentration" in complaint(
        capsys, "sample", "masked", "--sampler", "first_hitting", "--eta", "2"
    )
    assert "makes exactly 16 steps here" in complaint(
        capsys, "sample", "masked", "--sampler", "first_hitting", "--steps", "2"
    )
    assert "--sampler.kappa needs a value." in complaint(capsys, "sample", "masked", "--sampler.kappa")
    assert "did you mean first_hitting?" in complaint(capsys, "samplers", "first")
    assert "did you mean psi?" in complaint(capsys, "sample", "masked", "--sampler", "ps")


@pytest.mark.parametrize(
    "command",
    ["sample", "infill", "solve", "frontier", "sweep", "export"]
    + [f"evaluate MODEL {name}" for name in ("sudoku", "generative", "molecules")],
)
def test_every_command_that_samples_takes_a_sampler(command: str, capsys: Capture) -> None:
    assert command.split()[0] in VERBS
    assert main([*command.split(), "--help"]) == 0
    assert "--sampler NAME" in capsys.readouterr().out


def test_the_committed_mdlm_is_exported_by_two_commands(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of results/sudoku/README.md, from the model as its run left it."""
    monkeypatch.chdir(tmp_path)
    whole = from_pretrained(COMMITTED)
    trained = replace(
        whole,
        config=replace(
            whole.config,
            sampling=replace(whole.config.sampling, temperature=1.0, sampler=None),
            unconditional=None,
        ),
    )
    trained.save_pretrained("runs/sudoku-mdlm")
    text = (COMMITTED.parents[1] / "README.md").read_text()
    commands = [
        line.split() for line in text.splitlines() if line.startswith("simplax export") and "mdlm" in line
    ]
    assert len(commands) == 2
    for command in commands:
        printed(capsys, 0, *command[1:])
    made = Path("results/sudoku/models/mdlm")
    assert load(made / "config.json") == to_json(from_json(load(COMMITTED / "config.json")))
    state, again = (from_pretrained(place).denoiser.state_dict() for place in (COMMITTED, made))
    assert all(torch.equal(state[name], again[name]) for name in state)
    assert (made / "weights.safetensors").stat().st_size == (COMMITTED / "weights.safetensors").stat().st_size
