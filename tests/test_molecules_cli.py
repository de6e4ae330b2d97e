"""Molecules on the command line: a file of strings, a model, controls, figures; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from molecule_data import needs_moses, needs_rdkit
from simplax import recipes
from simplax.cli import main
from simplax.cli.verbs.figure_molecules import error_sets, suite_points
from simplax.errors import UserError
from simplax.evaluate.molecules.strings import read_strings
from simplax.methods import METHODS
from simplax.pretrained import from_pretrained
from simplax.recipes.launch import launch
from simplax.viz.molecules import floor_label

KEYS = {
    "valid", "unique@1000", "unique@10000", "FCD/Test", "FCD/TestSF", "SNN/Test", "SNN/TestSF", "Frag/Test",
    "Frag/TestSF", "Scaf/Test", "Scaf/TestSF", "IntDiv", "IntDiv2", "Filters", "logP", "SA", "QED", "weight", "Novelty",
    "Quality", "interior_pads", "fcd_infinity",
}  # fmt: skip

TRAIN = [
    "Cc1noc(C)c1CN(C)C(=O)Nc1cc(F)cc(F)c1", "Oc1ccccc1-c1cccc2cnccc12", "COc1cccc(NC(=O)Cc2coc3ccc(OC)cc23)c1",
    "COCc1nnc(NC(=O)COc2ccc(C(C)(C)C)cc2)s1", "O=C(C1CC2C=CC1C2)N1CCOc2ccccc21", "Nc1c(Br)cccc1C(=O)Nc1ccncn1",
    "CC(=O)Oc1ccccc1C(=O)O", "CC(C)Cc1ccc(C(C)C(=O)O)cc1", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CC(=O)Nc1ccc(O)cc1",
    "CCN(CC)CCNC(=O)c1ccc(N)cc1", "Clc1ccccc1C1=NCc2ccccc2N1", "CC1CCCN(C(=O)c2ccco2)C1", "O=C(O)c1ccc(Cl)cc1",
    "CCOC(=O)c1ccccc1N", "COc1ccc2[nH]ccc2c1", "O=C(Nc1ccccc1)c1cccs1", "CN1CCN(c2ccccc2)CC1", "CSc1ccc(C=O)cc1",
    "N#Cc1ccc(N2CCOCC2)cc1", "CC(C)NCC(O)COc1ccccc1", "Cc1ccc(S(N)(=O)=O)cc1", "O=C1CCCN1c1ccccc1", "CCc1nn(C)cc1C",
]  # fmt: skip


@pytest.fixture
def against(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Small references in place of the published ones, which take seconds to load."""
    from simplax.data.molecules.canonical import canonical
    from simplax.evaluate.molecules import references as module
    from simplax.evaluate.molecules.statistics import Statistics

    monkeypatch.setenv("SIMPLAX_CACHE", str(tmp_path / "cache"))
    train = [str(canonical(text)) for text in TRAIN]
    made = module.References("moses", Statistics.of(train[::2]), Statistics.of(train[1::2]), train)
    monkeypatch.setattr(module, "references", lambda name, **options: made)
    return made


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@needs_moses
def test_a_file_is_measured_line_by_line(
    against: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.smi"
    file.write_text("\n".join(["OCC", "", "CCO", "C1CC", "C_C", TRAIN[0], "CCO "]) + "\n\n")
    figures = tmp_path / "figures"
    result = said(capsys, "evaluate", str(file), "molecules", "--figures", str(figures))
    assert set(result) >= KEYS
    assert (result["num"], result["num_valid"]) == (8, 4)
    assert result["valid"] == pytest.approx(4 / 8) and result["interior_pads"] == pytest.approx(1 / 8)
    assert result["unique@1000"] == pytest.approx(2 / 4) and result["Novelty"] == pytest.approx(1 / 2)
    assert result["errors"] == {"pads inside": 1, "empty": 2, "ring": 1}
    assert result["floor"]["num"] == 4 and result["floor"]["Novelty"] == 0.0
    assert {path.name for path in figures.iterdir()} >= {"structures.svg", "properties.png", "errors.svg"}
    assert "<svg" in (figures / "structures.svg").read_text()
    # the floor of so many molecules is kept: the second time it is only read
    assert said(capsys, "evaluate", str(file), "molecules")["floor"] == result["floor"]


@needs_moses
def test_strings_without_a_molecule_have_no_values(
    against: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.smi"
    file.write_text("((\n")
    result = said(capsys, "evaluate", str(file), "molecules")
    assert result["valid"] == 0.0 and result["FCD/Test"] is None and result["Novelty"] is None
    assert set(result) >= KEYS


@needs_moses
def test_each_control_is_caught_by_its_column(against: Any) -> None:
    from simplax.evaluate.molecules.controls import controls
    from simplax.evaluate.molecules.measure import measure

    rows = {
        name: measure(control.strings, against).values
        for name, control in controls(against.train, 24).items()
    }
    copies, carbon, mixed = (rows[name] for name in ("training copies", "AddCarbon", "shuffled characters"))
    assert copies["Novelty"] == 0.0 and copies["valid"] == copies["unique@1000"] == 1.0
    # perfect in all the columns that are quoted first, and further from the data than the data
    assert carbon["Novelty"] == carbon["valid"] == 1.0
    for name in ("FCD/Test", "SNN/Test", "weight"):
        assert copies[name] is not None and carbon[name] is not None
    assert carbon["FCD/Test"] > 1.3 * copies["FCD/Test"]  # type: ignore[operator]
    assert carbon["SNN/Test"] < copies["SNN/Test"]  # type: ignore[operator]
    assert carbon["weight"] > copies["weight"]  # type: ignore[operator]
    assert mixed["valid"] is not None and mixed["valid"] < 0.1


@needs_moses
def test_a_model_is_drawn_from_and_measured(
    against: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(recipes.smoke(recipes.get("moses-udlm")), tmp_path / "run", quiet=True)
    samples = tmp_path / "drawn.smi"
    arguments = ("evaluate", str(tmp_path / "run"), "molecules", "--num", "12", "--samples", str(samples))
    result = said(capsys, *arguments)
    assert set(result) >= KEYS and result["num"] == 12 and result["nfe"] == 4
    assert result["nats_per_molecule"] > 0 and result["parameters"] < 2_000_000
    # strings that are written and read again are judged alike, padding inside included
    again = said(capsys, "evaluate", str(samples), "molecules")
    assert {name: again[name] for name in KEYS} == {name: result[name] for name in KEYS}
    written = result["written"]
    assert Path(written).parent == tmp_path / "run" / "evaluations"
    figure = said(capsys, "figure", "molecules", written, written, "--out", str(tmp_path / "calls.png"))
    assert Path(figure["files"][0]).stat().st_size > 0 and figure["points"][0]["nfe"] == 4


def test_a_figure_of_the_suite_says_of_how_many_molecules_it_is() -> None:
    points = suite_points(Path(__file__).parents[1] / "results" / "suites" / "molecules")
    assert len({point["name"] for point in points}) == 11
    for one in points:  # every invalid string is counted once
        assert sum(one["errors"].values()) == one["num"] - one["num_valid"]
    # one floor is drawn, of more molecules than any row has: it must not claim to be of as many
    assert {point["floor_num"] for point in points} == {2000}
    assert floor_label(points) == "2,000 training molecules (fewer lie higher)"
    alike = [{**point, "floor_num": point["num_valid"]} for point in points]
    assert floor_label(alike) == "training molecules, as many as are valid"
    sets = error_sets(points, 32)
    nearest = {point["name"]: point for point in points if point["nfe"] in (22, 32)}
    assert {name.rsplit(",", 1)[0] for name in sets} == set(nearest)
    for name, (errors, num) in sets.items():
        assert (errors, num) == (nearest[name.rsplit(",", 1)[0]]["errors"], 2000)


def test_every_method_has_a_recipe_of_both_data_sets_below_two_million_parameters() -> None:
    for family in ("qm9", "moses"):
        for method in METHODS:
            config = recipes.get(f"{family}-{method}")
            denoiser = config.method.build(config.task.vocab_size, config.task.length, config.architecture)
            assert sum(parameter.numel() for parameter in denoiser.parameters()) <= 2_000_000


def test_the_carry_recipe_is_that_of_the_bundled_model() -> None:
    recipe, model = recipes.get("qm9-carry-simplax"), from_pretrained("molecules").config
    assert (recipe.method, recipe.sampling) == (model.method, model.sampling)
    assert recipe.architecture == model.architecture
    assert replace(recipe.run, seed=model.run.seed, precision=model.run.precision) == model.run
    assert recipe.task == replace(model.task, seed=recipe.task.seed)  # type: ignore[type-var,attr-defined]
    moses = recipes.get("moses-carry-simplax")
    assert (moses.method, moses.architecture) == (recipe.method, recipe.architecture)


def test_lines_are_strings_as_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "x.smi"
    file.write_bytes(b"\xef\xbb\xbfCC \r\n\n C\nO")
    assert read_strings(file) == ["CC ", "", " C", "O"]
    file.write_bytes(b"\n")
    assert read_strings(file) == [""]
    file.write_bytes(b"")
    with pytest.raises(UserError, match="is empty"):
        read_strings(file)


@needs_rdkit
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("evaluate", "sudoku", "molecules", "--num", "2"), "was not trained on molecules"),
        (("evaluate", "sudoku", "molecules", "--num", "0"), "must be at least 1"),
        (("evaluate", "no-such-model", "molecules"), "there is no model"),
        (("data", "molecules", "qm9", "--csv", "no-such-file.csv"), "there is no file"),
        (("figure", "molecules", __file__), "is not a result of simplax"),
        (("figure", "atoms"), "there is no figure"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) == 2
    error = capsys.readouterr().err
    assert complaint in error and "Traceback" not in error and len(error.strip().splitlines()) == 1
