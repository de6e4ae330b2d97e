"""Properties of molecules as labels: computed once, read in training, and pulled towards when sampling."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from molecule_data import needs_rdkit
from simplax import recipes
from simplax.cli import main
from simplax.data.molecules import prepare
from simplax.data.molecules.labels import property_values
from simplax.errors import UserError
from simplax.methods import METHODS
from simplax.recipes.launch import launch
from simplax.tasks import MoleculesTask


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMPLAX_CACHE", str(tmp_path / "cache"))
    ends = ("", "O", "N", "F", "C=O", "C#N", "C1CC1", "c1ccoc1", "C1CC2CC12")
    strings = ["C" * number + end for number in range(1, 9) for end in ends]
    (tmp_path / "qm9.csv").write_text("smiles\n" + "\n".join(strings) + "\n")
    return tmp_path / "qm9.csv"


@needs_rdkit
def test_labels_are_the_properties_of_their_own_molecules(file: Path) -> None:
    from rdkit import Chem
    from rdkit.Chem import QED

    made = prepare("qm9", file=file)
    task = MoleculesTask("qm9", labels=("rings", "qed:number"), seed=3)
    rings, qed = task.described_by()
    assert (rings.size, qed.size) == (2, 0)
    counts = property_values(made, "rings").by_split["train"]
    high = np.quantile(counts, 0.9)
    for source in (task.train(), task.validation()):
        batch = source.batch(torch.arange(len(source)))  # type: ignore[arg-type]
        assert batch.labels is not None
        for text, (many, number) in zip(task.text(batch.tokens), batch.labels.tolist()):
            mol = Chem.MolFromSmiles(text)
            assert many == (mol.GetRingInfo().NumRings() >= high)
            assert number == pytest.approx((QED.qed(mol) - qed.mean) / qed.deviation, rel=1e-5)


@needs_rdkit
def test_computed_once_for_these_rows_by_any_number_of_workers(file: Path) -> None:
    made = prepare("qm9", file=file)
    calls: list[int] = []
    first = property_values(made, "weight", progress=lambda done, total: calls.append(done))
    assert calls[-1] == sum(len(part) for part in first.by_split.values())
    again = property_values(made, "weight", progress=lambda done, total: pytest.fail("computed again"))
    assert np.array_equal(first.by_split["train"], again.by_split["train"])
    (made.path.with_name("qm9-atoms-weight.safetensors")).unlink()
    spread = property_values(made, "weight", workers=2)
    assert spread.threshold == first.threshold
    assert all(np.array_equal(spread.by_split[name], part) for name, part in first.by_split.items())
    file.write_text("smiles\n" + "\n".join("C" * number for number in range(1, 20)) + "\n")
    other = property_values(prepare("qm9", file=file), "weight")
    assert len(other.by_split["train"]) != len(first.by_split["train"])


def test_recipes_with_labels_cover_every_method() -> None:
    for family, label in (("qm9-qed", "qed"), ("qm9-rings", "rings")):
        for method in METHODS:
            config = recipes.get(f"{family}-{method}")
            assert config.architecture.labels == (2,)
            assert [one.name for one in config.task.described_by()] == [label]
    with pytest.raises(UserError, match="no property 'colour'"):
        MoleculesTask(labels=("colour",))


@needs_rdkit
def test_from_strings_to_a_trade_off_of_guidance(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["data", "molecules", "qm9", "--csv", str(file), "--label", "qed", "--label", "rings", "--json"]
    assert main(asked) == 0
    about = json.loads(capsys.readouterr().out)["labels"]
    assert set(about) == {"qed", "rings"} and about["qed"]["mean"] < about["qed"]["high_from"] < 1
    config = recipes.smoke(recipes.get("qm9-rings-udlm"))
    config = replace(config, task=replace(config.task, examples=False), run=replace(config.run, steps=2))
    launch(config, tmp_path / "run", quiet=True)
    command = ["evaluate", str(tmp_path / "run"), "guidance", "--label", "rings=high", "--num", "12"]
    command += ["--steps", "3", "--strengths", "0", "1", "2.5", "--figure", str(tmp_path / "curve.png")]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["guidance"] for row in found["results"]] == [0.0, 1.0, 2.5]
    assert [row["nfe"] for row in found["results"]] == [3, 3, 6]
    for row in found["results"]:
        assert 0 <= row["novel"] <= row["unique"] <= row["valid"] <= row["num"] == 12
        assert (row["rings_novel"] is None) == (row["novel"] == 0)
    assert Path(found["written"]).is_file() and (tmp_path / "curve.png").stat().st_size > 0
    assert main(["evaluate", str(tmp_path / "run"), "guidance"]) == 2
    assert "--label NAME=VALUE" in capsys.readouterr().err


@needs_rdkit
def test_a_row_counts_molecules_and_not_spellings() -> None:
    from simplax.evaluate.molecules.guided import guided_row

    row = guided_row(["OCC", "CCO", "C", "C1CC1", "C1CC", ""], {"C"}, ["rings"])
    assert (row["num"], row["valid"], row["unique"], row["novel"]) == (6, 4, 3, 2)
    assert row["rings_valid"] == 0.25 and row["rings_novel"] == 0.5
    empty = guided_row(["("], set(), ["rings"])
    assert empty["valid"] == 0 and empty["rings_novel"] is None
