"""Your own sequences: a prepared directory is all a run, a sample and a stored model need."""

from __future__ import annotations

import json
import math
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.cli import main
from simplax.config.run import from_json, to_json
from simplax.data.text import (
    Lengths,
    Options,
    attend_through_end,
    attend_to,
    cut_all,
    has_interior_end,
    lengths_before_end,
    prepare,
)
from simplax.errors import UserError
from simplax.evaluate import perplexity, unigram_entropies
from simplax.methods import METHODS
from simplax.pretrained.model import from_pretrained
from simplax.random import Keys
from simplax.recipes import RECIPES, smoke
from simplax.recipes.launch import launch
from simplax.recipes.own import SIZES, choose, own_data
from simplax.tasks import SequenceTask
from simplax.typing import StepContext

MOLECULES = ["CCO", "c1ccccc1", "CC(=O)O", "ClCCBr", "N#N", "C[C@H](N)O", "OCC", "CCN", "CCCl", "C1CC1"]


@pytest.fixture
def molecules(tmp_path: Path) -> Path:
    rows = [f"{MOLECULES[i % 10]},{i % 3},{i / 4}\n" for i in range(60)]
    (tmp_path / "molecules.csv").write_text("smiles,kind,mass\n" + "".join(rows))
    options = Options(
        str(tmp_path / "molecules.csv"),
        "smiles",
        columns=("smiles",),
        labels=("kind", "mass:number"),
    )
    prepare(options, tmp_path / "molecules")
    return tmp_path / "molecules"


def test_a_directory_is_a_task(molecules: Path) -> None:
    task = SequenceTask(str(molecules))
    assert (task.length, task.layout) == (9, "learned_end")  # c1ccccc1 has eight symbols, one more ends it
    assert task.end == task.vocab_size - 1
    batch = task.train().batch(torch.arange(59))
    assert batch.attend is None and bool(batch.scored.all())  # the end and the padding are learned
    assert sorted(set(task.text(batch.tokens))) == sorted(MOLECULES)
    assert from_json(to_json(own_data("udlm", molecules))).task == task
    with pytest.raises(UserError, match="neither here nor in"):
        SequenceTask("nowhere")
    with pytest.raises(UserError, match="another categories than the run was made for"):
        replace(task, categories=99).train()


def test_labels_travel_with_their_sequences(molecules: Path) -> None:
    task = SequenceTask(str(molecules), seed=4)
    kind, mass = task.described_by()
    assert (kind.classes, mass.kind) == (("0", "1", "2"), "number")
    assert mass.mean == pytest.approx(np.mean(np.arange(60) / 4)) and kind.value("2") == 2.0
    with pytest.raises(UserError, match="no class of kind"):
        kind.value("9")
    source, rows = task.train(), torch.arange(59)
    for text, (number, weight) in zip(task.text(source.batch(rows).tokens), source.labels(rows).tolist()):  # type: ignore[attr-defined]
        place = round(4 * weight)
        assert (text, number) == (MOLECULES[place % 10], place % 3)
    values = task.prepared().label_values("train")
    assert values["kind"].dtype == np.int64 and len(values["mass"]) == 59


def test_known_lengths_are_masked_and_drawn_by_seed(molecules: Path, tmp_path: Path) -> None:
    """The chance of a false alarm is below 1e-6."""
    from scipy import stats

    source = str(molecules.parent / "molecules.csv")
    prepare(Options(source, "smiles", columns=("smiles",), layout="lengths"), tmp_path / "known")
    task = SequenceTask(str(tmp_path / "known"))
    lengths = task.known_lengths()
    assert lengths is not None and task.end is None
    batch = task.train().batch(torch.arange(59))
    assert batch.attend is not None and torch.equal(batch.scored, batch.attend)
    sizes = batch.attend.sum(-1)
    assert torch.bincount(sizes, minlength=task.length + 1).tolist() == list(lengths.counts)
    drawn = lengths.draw(range(20_000))
    found = torch.bincount(drawn, minlength=len(lengths.counts)).numpy()
    law = np.array(lengths.counts) / sum(lengths.counts)
    assert found[law == 0].sum() == 0
    assert stats.chisquare(found[law > 0], 20_000 * law[law > 0]).pvalue > 1e-6
    assert torch.equal(
        lengths.draw([7, 123]), drawn[[7, 123]]
    )  # a seed's length does not depend on its companions
    assert attend_to(torch.tensor([0, 3]), 3).tolist() == [[False] * 3, [True] * 3]
    with pytest.raises(UserError, match="between 0 and 3"):
        attend_to(torch.tensor([4]), 3)
    with pytest.raises(UserError, match="above it"):
        Lengths((0, 0))


rows_of_tokens = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(rows_of_tokens)
@settings(max_examples=200, deadline=None)
def test_what_comes_before_the_end(row: list[int]) -> None:
    end, tokens = 3, torch.tensor([row])
    before = row.index(end) if end in row else len(row)
    assert int(lengths_before_end(tokens, end)) == before
    assert attend_through_end(tokens, end)[0].tolist() == [i <= before for i in range(len(row))]
    assert bool(has_interior_end(tokens, end)) == any(x != end for x in row[before:])
    assert cut_all(tokens, end) == [row[:before]]
    assert cut_all(tokens, lengths=torch.tensor([1])) == [row[:1]]


@given(st.lists(rows_of_tokens, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_entropy_and_perplexity_never_count_padding(rows: list[list[int]]) -> None:
    width = max(map(len, rows)) + 2
    lengths = torch.tensor([len(row) for row in rows])
    for fill in (0, 3):  # padding repeats an ordinary token
        ids = torch.tensor([row + [fill] * (width - len(row)) for row in rows])
        found = unigram_entropies(ids, attend_to(lengths, width))
        for row, value in zip(rows, found.tolist()):
            assert value == pytest.approx(float(unigram_entropies(torch.tensor([row]))), abs=1e-12)
    nats = lengths.double() * math.log(7)
    assert perplexity(nats, attend_to(lengths, width)) == pytest.approx(7.0)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_run_on_it(molecules: Path, method: str) -> None:
    for size in SIZES:
        config = own_data(method, molecules, size)
        assert from_json(to_json(config)) == config
        assert (config.task.length, type(config.method)) == (9, METHODS[method])


def test_names_that_cannot_be(molecules: Path) -> None:
    assert choose("toy-udlm", molecules).task == SequenceTask(str(molecules))
    for arguments, message in (
        (("udl", molecules), "no recipe 'udl'"),
        (("udlm", molecules, "huge"), "no size 'huge'"),
        (("udlm", None), "is a method and not a recipe"),
        (("toy-udlm", molecules, "nano"), "a size of its own"),
        (("toy-udlm", None, "nano"), "say --data"),
    ):
        with pytest.raises(UserError, match=message):
            choose(*arguments)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no method"):
        own_data("udl", molecules)


def test_a_model_needs_no_data(molecules: Path, tmp_path: Path) -> None:
    """Trained, the data gone, loaded elsewhere: it still knows its tokenizer, its end, its lengths and its labels."""
    config = smoke(own_data("udlm", molecules))
    launch(config, tmp_path / "run", quiet=True, device="cpu")
    shutil.move(molecules, tmp_path / "gone")
    model = from_pretrained(tmp_path / "run")
    assert (model.config.task.end, model.config.task.described_by()[0].classes) == (
        config.task.end,
        ("0", "1", "2"),
    )
    end = model.config.task.end
    assert end is not None
    row = model.encode("CCO")
    padded = torch.tensor([row + [end] * (9 - len(row))])
    assert model.decode(padded) == ["CCO"]
    drawn = model.sample(3, seeds=0, num_steps=4)
    assert all("<|endoftext|>" not in text for text in model.decode(drawn.tokens))


def test_from_a_fasta_file_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = "".join(f">s{i}\n{'ACGT' * (1 + i % 3)}\nnn\n\n" for i in range(30))
    (tmp_path / "genes.fasta").write_text("\n" + records)
    out = str(tmp_path / "genes")
    assert (
        main(["data", "sequences", str(tmp_path / "genes.fasta"), "--out", out, "--workers", "1", "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["length"], told["vocab_size"], told["layout"]) == (15, 6, "learned_end")


DOCS = Path(__file__).parents[1] / "docs" / "data.md"


@pytest.mark.parametrize("section", ["From a CSV file", "From a FASTA file"])
def test_the_documented_commands(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file to a trained, sampled and judged model, as written in the documentation."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{text},{'yes' if '1' in text else 'no'}\n" for text in MOLECULES * 4)
    Path("molecules.csv").write_text("smiles,ring\n" + rows)
    Path("genes.fasta").write_text(
        "".join(f">g{i}\n{'ACGT' * (1 + i % 3)}{'N' * (i % 2)}\n" for i in range(40))
    )
    block = DOCS.read_text().split(f"## {section}")[1].split("```bash\n")[1].split("```")[0]
    commands = [shlex.split(line)[1:] for line in block.splitlines()]
    used = [command[0] for command in commands]
    assert len(used) == 5 and [*used[:3], used[4]] == ["data", "train", "sample", "evaluate"]
    more = {"data": ["--workers", "1"], "train": ["--smoke"], "evaluate": ["--draws", "1"]}
    for command in commands:
        assert main([*command, *more.get(command[0], []), "--json"]) == 0, capsys.readouterr().err
        told = json.loads(capsys.readouterr().out)
    assert math.isfinite(told["nats_per_token"])


@pytest.mark.parametrize("family", sorted({recipe.family for recipe in RECIPES.values()}))
def test_every_recipe_takes_other_data(family: str, molecules: Path) -> None:
    """In miniature: its network reads the sequences, and its loss is finite where tokens are scored."""
    for name, recipe in RECIPES.items():
        if recipe.family != family:
            continue
        config = choose(name, molecules)
        assert config.task == SequenceTask(str(molecules))
        trunk = replace(config.architecture, width=16, heads=2, depth=1, cond_dim=16)
        batch = config.task.train().batch(torch.arange(4))
        torch.manual_seed(0)
        denoiser = config.method.build(config.task.vocab_size, config.task.length, trunk)
        context = StepContext(Keys.from_seeds(range(4)), torch.linspace(0.1, 0.9, 4))
        loss = config.method.loss(denoiser, batch, context)
        assert bool(loss.per_token.isfinite().all()) and bool((loss.per_token[loss.scored] != 0).any())
