"""Molecules as tokens: they join back, keep their splits apart, and bad files are refused in one sentence."""

from __future__ import annotations

import contextlib
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from failure_budget import accept, chi_square
from molecule_data import HAS_MOSES, needs_moses, needs_rdkit
from simplax import recipes
from simplax.config.run import from_json, to_json
from simplax.data.molecules import DATASETS, PAD, TOKENS, prepare, smiles_tokens
from simplax.data.molecules.packages import csv_columns
from simplax.data.molecules.splits import moses_splits, qm9_splits
from simplax.data.molecules.tokens import split_atoms, training_lengths
from simplax.errors import UserError
from simplax.pretrained import Model
from simplax.recipes.launch import build
from simplax.tasks import MoleculesTask

STRINGS = ["CCO", "Cc1noc(C)c1CN(C)C(=O)Nc1cc(F)cc(F)c1", "N#Cc1ccc(Br)nc1", "c1ccc2[nH]ccc2c1", "CC(=O)NCl"]


@pytest.mark.parametrize("kind", TOKENS)
def test_strings_come_back_from_their_tokens(kind: str) -> None:
    tokens = smiles_tokens("moses", kind)
    rows = tokens.encode(STRINGS)
    assert rows.shape == (len(STRINGS), tokens.length)
    assert tokens.decode(rows.tolist()) == STRINGS
    assert int(rows.max()) == tokens.pad == tokens.vocab_size - 1


def test_sizes_are_those_of_the_published_data() -> None:
    sizes = {
        (d, k): (smiles_tokens(d, k).vocab_size, smiles_tokens(d, k).length) for d in DATASETS for k in TOKENS
    }
    assert sizes["moses", "atoms"] == (25, 54) and sizes["moses", "characters"] == (27, 57)
    assert sizes["qm9", "atoms"] == (31, 22)


def test_atoms_are_whole() -> None:
    assert split_atoms("ClC[nH]Br%12[C@@H]") == ["Cl", "C", "[nH]", "Br", "%12", "[C@@H]"]


@given(st.lists(st.integers(0, 30), min_size=22, max_size=22))
@settings(max_examples=100, deadline=None)
def test_padding_is_cut_at_the_end_and_kept_visible_inside(row: list[int]) -> None:
    tokens = smiles_tokens("qm9")
    (text,) = tokens.decode([row])
    real = [i for i, token in enumerate(row) if token != tokens.pad]
    used = row[: real[-1] + 1] if real else []
    assert text.count(PAD) == used.count(tokens.pad)
    assert text.replace(PAD, "") == "".join(tokens.vocabulary[i] for i in used if i != tokens.pad)


def test_what_the_vocabulary_lacks_is_refused() -> None:
    with pytest.raises(UserError, match="Br"):
        smiles_tokens("qm9").encode(["CBr"])
    with pytest.raises(UserError, match="at most 22"):
        smiles_tokens("qm9").encode(["C" * 23])
    with pytest.raises(UserError, match="not a SMILES"):
        smiles_tokens("qm9").encode(["C_C"])
    with pytest.raises(UserError, match="qm9 or moses"):
        MoleculesTask("zinc")


def test_the_task_needs_no_data_to_be_described_and_shuffles_passes() -> None:
    task = MoleculesTask("moses").small()
    source = task.train()
    number = len(source)  # type: ignore[arg-type]
    first, second = (source.batch(torch.arange(i * number, (i + 1) * number)).tokens for i in (0, 1))
    assert not torch.equal(first, second)
    assert sorted(task.text(first)) == sorted(task.text(second))
    batch = source.batch(torch.arange(4))
    assert bool(batch.scored.all()) and batch.attend is None  # padding is learned like any other token


def test_known_lengths_leave_padding_out() -> None:
    task = replace(MoleculesTask("qm9").small(), layout="lengths")
    batch = task.train().batch(torch.arange(8))
    sizes = [len(split_atoms(text)) for text in task.text(batch.tokens)]
    assert batch.attend is not None and batch.attend.sum(-1).tolist() == sizes
    assert torch.equal(batch.scored, batch.attend)
    known, padding = task.known_lengths(), task.smiles.pad
    assert known is not None and known.longest == task.length
    behind = torch.where(batch.attend, batch.tokens, 0)  # whatever lies behind a sequence is none of it
    config = replace(recipes.smoke(recipes.get("qm9-udlm")), task=task)
    torch.manual_seed(0)
    model = Model(build(config).eval(), config)
    assert model.decode(behind, torch.tensor(sizes)) == task.text(batch.tokens)
    drawn = model.sample(2000, seeds=0, num_steps=1)
    assert drawn.lengths is not None
    counts = torch.bincount(drawn.lengths, minlength=task.length + 1)
    law = torch.tensor(known.counts, dtype=torch.float64)
    accept([chi_square(counts.numpy(), (law / law.sum()).numpy())])
    padded = ((drawn.tokens == padding) & (torch.arange(task.length) < drawn.lengths[:, None])).any(-1)
    strings = model.decode(drawn.tokens, drawn.lengths)
    assert all(bad or PAD not in text for text, bad in zip(strings, padded.tolist()))
    assert all(
        len(split_atoms(text)) <= n for text, n in zip(strings, drawn.lengths.tolist()) if PAD not in text
    )
    with pytest.raises(UserError, match="learned_end or lengths"):
        MoleculesTask(layout="packed")


def test_a_layout_is_stored_where_there_is_one() -> None:
    """Configurations without it are stored as before it was there, and so have the same digest."""
    plain = recipes.get("qm9-udlm")
    assert "layout" not in to_json(plain)["task"] and from_json(to_json(plain)) == plain
    known = replace(plain, task=replace(plain.task, layout="lengths"))  # type: ignore[type-var]
    assert to_json(known)["task"]["layout"] == "lengths" and from_json(to_json(known)) == known


@pytest.mark.parametrize("dataset", ["qm9", "moses"])
@pytest.mark.parametrize("kind", ["atoms", "characters"])
def test_lengths_of_training_molecules_are_facts(dataset: str, kind: str) -> None:
    counts, tokens = training_lengths(dataset, kind), smiles_tokens(dataset, kind)
    assert len(counts) == tokens.length + 1 and counts[-1] > 0
    # the same molecules, however they are cut into tokens
    assert sum(counts) == sum(training_lengths(dataset, "atoms"))
    mean = sum(n * count for n, count in enumerate(counts)) / sum(counts)
    if dataset == "moses":
        assert mean == pytest.approx({"atoms": 35.37, "characters": 35.86}[kind], abs=0.01)


def csv_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@needs_rdkit
def test_qm9_from_a_csv_is_canonical_distinct_and_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMPLAX_CACHE", str(tmp_path / "cache"))
    chains = ["C" * n + end for n in range(1, 11) for end in ("", "O", "N", "F", "C=O", "C#N")]
    rows = [*chains, "OCC", "not a molecule", ""]
    file = csv_file(
        tmp_path / "qm9.csv", "index,smiles\n" + "".join(f"{i},{s}\n" for i, s in enumerate(rows))
    )
    splits = qm9_splits(file)
    parts = [set(part) for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert "CCO" in set.union(*parts) and "OCC" not in set.union(*parts)
    made = prepare("qm9", file=file)
    again = prepare("qm9")
    assert np.array_equal(made.rows("train"), again.rows("train"))
    assert again.facts["source"] == "qm9.csv"
    source = MoleculesTask("qm9").train()
    assert set(MoleculesTask("qm9").text(source.batch(torch.arange(200)).tokens)) == parts[0]
    if not HAS_MOSES:
        return
    from simplax.evaluate.molecules.references import references

    for _ in range(2):  # the second time they are read from the cache
        against = references("qm9")
        assert (set(against.train), against.test.number, against.scaffolds) == (parts[0], len(parts[2]), None)


def test_moses_from_a_csv_keeps_its_splits(tmp_path: Path) -> None:
    text = (
        "SMILES,SPLIT\n"
        + "".join(f"{'C' * n},train\n" for n in range(1, 21))
        + "CO,test\nCN,test_scaffolds\n"
    )
    path = tmp_path / "moses.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    splits = moses_splits(path)
    assert (len(splits.train), len(splits.validation)) == (19, 1)
    assert (splits.test, splits.scaffolds) == (["CO"], ["CN"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n", "pointer of Git LFS"),
        ("name,split\nC,train\n", "no column SMILES"),
        ("\n", "no column SMILES"),
        ("SMILES,SPLIT\nC\n", "too few cells in line 2"),
        ("SMILES,SPLIT\nC,else\n", "split 'else'"),
    ],
)
def test_a_csv_that_is_something_else_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        moses_splits(csv_file(tmp_path / "x.csv", text))


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    for bytes_ in (content, b"SMILES\n" + content, b"\x1f\x8b" + content, gzip.compress(content)[:-3]):
        path.write_bytes(bytes_)
        with contextlib.suppress(UserError):
            list(csv_columns(path, "SMILES"))


@needs_moses
def test_the_published_strings_fit_the_vocabulary_written_down() -> None:
    from simplax.data.molecules.packages import moses_strings

    rows = moses_strings("test")[::40]
    for kind in TOKENS:
        tokens = smiles_tokens("moses", kind)
        assert tokens.decode(tokens.encode(rows).tolist()) == rows


@needs_moses
def test_a_changed_file_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simplax.data.molecules import packages

    (tmp_path / "dataset" / "data").mkdir(parents=True)
    (tmp_path / "dataset" / "data" / "test_stats.npz").write_bytes(b"something else")
    monkeypatch.setattr(packages, "package_folder", lambda name: tmp_path)
    packages.moses_file.cache_clear()
    with pytest.raises(UserError, match="not the published file"):
        packages.moses_file("dataset/data/test_stats.npz")
    packages.moses_file.cache_clear()


def test_statistics_let_nothing_but_arrays_and_counters_out_of_a_pickle() -> None:
    import io
    import os
    import pickle

    from simplax.evaluate.molecules.statistics import _ArraysOnly

    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("true",)

    with pytest.raises(UserError, match="system"):
        _ArraysOnly(io.BytesIO(pickle.dumps(Harmful()))).load()
