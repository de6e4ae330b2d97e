"""Text models: prompts are clamped, gaps filled, tokenizers travel, what is printed parses, pages need nothing else."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax import config, recipes
from simplax.cli import main
from simplax.data.text import Options, prepare
from simplax.errors import UserError
from simplax.methods import Simplax
from simplax.pretrained.model import Model, from_pretrained
from simplax.pretrained.prompts import infilling, prompts
from simplax.recipes.launch import launch

TEXT = "hello world, this is a small text to train on. "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exported models of several methods, and no data: it is removed after training."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text(TEXT * 40)
    for name, wrap in (("plain", False), ("wrapped", True)):
        options = Options(str(folder / "text.txt"), "characters", length=24, wrap=wrap, split="10%")
        prepared = prepare(options, folder / name)
        for method in ("simplax", "mdlm", "ar") if not wrap else ("simplax",):
            settings = {
                "task.corpus": str(folder / name),
                "task.sequence_length": "24",
                "task.categories": str(prepared.vocab_size),
                "task.wrap": str(wrap),
            }
            small = config.resolve(
                recipes.smoke(recipes.get(f"text-mini-{method}")), None, list(settings.items())
            )
            launch(small, folder / "run", quiet=True)
            assert (folder / "run" / "tokenizer.json").is_file()
            from_pretrained(folder / "run").save_pretrained(folder / f"{name}-{method}")
            shutil.rmtree(folder / "run")
        shutil.rmtree(folder / name)
    return folder


@pytest.fixture
def model(folder: Path) -> Model:
    return from_pretrained(folder / "plain-simplax")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_a_model_carries_its_tokenizer(model: Model) -> None:
    ids = model.encode("hello world")
    assert len(ids) == 11
    assert model.decode(torch.tensor([ids])) == ["hello world"]
    with pytest.raises(UserError, match="neither here nor in"):
        model.config.task.train()  # the data is gone, the model is not


@pytest.mark.parametrize("method", ["simplax", "mdlm", "ar"])
def test_prompts_are_clamped(folder: Path, method: str) -> None:
    loaded = from_pretrained(folder / f"plain-{method}")
    clamped = prompts(loaded, ["hello", "this is"])
    assert clamped.given.sum(-1).tolist() == [5, 7]
    shortest = prompts(loaded, ["hello"] * 3)
    drawn = loaded.sample(3, seeds=0, tokens=shortest.tokens, given=shortest.given)
    assert all(text.startswith("hello") for text in loaded.decode(drawn.tokens))


@pytest.mark.parametrize("method", ["simplax", "mdlm"])
def test_infilling_keeps_every_known_token(folder: Path, method: str) -> None:
    loaded = from_pretrained(folder / f"plain-{method}")
    clamped = infilling(loaded, ["hel<gap:3>wor<gap:1>d", "<gap:4> is a", "text<gap:20>"])
    assert clamped.gaps == [[(3, 6), (9, 10)], [(0, 4)], [(4, 24)]]
    assert clamped.stops == [11, 9, 24]
    drawn = loaded.sample(3, seeds=0, tokens=clamped.tokens, given=clamped.given)
    texts = [
        "".join(
            loaded.tokenizer.alphabet[i] if i < len(loaded.tokenizer.alphabet) else "$" for i in row[:end]
        )  # type: ignore[union-attr]
        for row, end in zip(drawn.tokens.tolist(), clamped.stops)
    ]
    assert re.fullmatch(r"hel...wor.d", texts[0])
    assert re.fullmatch(r".... is a", texts[1])
    assert re.fullmatch(r"text.{20}", texts[2])


def test_wrapped_models_begin_with_their_symbol(folder: Path) -> None:
    loaded = from_pretrained(folder / "wrapped-simplax")
    assert loaded.tokenizer is not None
    for clamped in (prompts(loaded, ["hello"]), infilling(loaded, ["hell<gap:2>"])):
        assert clamped.start == 1
        assert clamped.tokens[0, 0] == loaded.tokenizer.bos and bool(clamped.given[0, 0])
        assert loaded.tokenizer.decode(clamped.tokens[0, 1:5].tolist()) == "hell"


def test_spaces_before_a_gap_belong_to_it_where_tokens_begin_with_spaces(model: Model) -> None:
    from simplax.data.text.tokenizers import Characters
    from simplax.pretrained.prompts import _parts

    class Leading(Characters):
        spaces_lead = True

    assert _parts("ab <gap:2> c", Leading(" abc")) == [[1, 2], 2, [0, 3]]
    assert _parts("ab <gap:2> c", Characters(" abc")) == [[1, 2, 0], 2, [0, 3]]


def test_what_cannot_be_filled_in_is_refused(model: Model, folder: Path) -> None:
    for text, message in (
        ("hello", "has no gap"),
        ("he<gap:0>lo", "at least one token"),
        ("hello<gap:20>", "has 25 tokens with its gaps, and the model has room for 24"),
        ("hello #<gap:2>", "'#' is not in this model's alphabet"),
    ):
        with pytest.raises(UserError, match=message):
            infilling(model, [text])
    toy = recipes.smoke(recipes.get("toy-udlm"))
    with pytest.raises(UserError, match="not a model of text"):
        prompts(Model(model.denoiser, toy), ["hello"])


def test_an_autoregressive_model_says_that_it_cannot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["infill", str(folder / "plain-ar"), "hel<gap:2> world"]) == 2
    assert "can only continue a prefix" in capsys.readouterr().err
    assert main(["infill", str(folder / "plain-ar"), "hello<gap:2>"]) == 0


def test_sampling_prints_text_lines_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(folder / "plain-simplax")
    options = ["--num", "3", "--seed", "7", "--steps", "3", "--prompt", "hello"]
    whole = json.loads(answer(capsys, "sample", name, *options, "--json"))
    assert [row["seed"] for row in whole["samples"]] == [7, 8, 9]
    assert all(
        set(row) == {"seed", "text", "tokens"} and len(row["tokens"]) == 24 for row in whole["samples"]
    )
    assert (whole["manifest"]["num_steps"], whole["manifest"]["given"]) == (3, "prompt 'hello'")
    lines = answer(capsys, "sample", name, *options, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == whole["samples"]
    assert answer(capsys, "sample", name, *options).rstrip("\n") == "\n".join(
        row["text"] for row in whole["samples"]
    )
    assert main(["sample", name, "--prompt", "hello", "--given"]) == 2


def test_infilling_prints_text_lines_and_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(folder / "plain-simplax")
    (tmp_path / "lines.txt").write_text("hel<gap:2>\n\nthis <gap:1>s\n")
    options = ["wor<gap:1>d", "--file", str(tmp_path / "lines.txt"), "--num", "2", "--steps", "2"]
    whole = json.loads(answer(capsys, "infill", name, *options, "--json"))["samples"]
    assert [row["asked"] for row in whole] == [
        text for text in ("wor<gap:1>d", "hel<gap:2>", "this <gap:1>s") for _ in range(2)
    ]
    for row in whole:
        before, after = re.split(r"<gap:\d+>", row["asked"])
        assert row["text"] == before + row["gaps"][0] + after
    lines = answer(capsys, "infill", name, *options, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == whole
    assert main(["infill", name]) == 2


@pytest.mark.parametrize("method", ["simplax", "mdlm"])
def test_pages_need_nothing_else(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    page = tmp_path / "pages" / "page.html"
    name = str(folder / f"plain-{method}")
    answer(capsys, "infill", name, "hel<gap:2> wor<gap:1>d", "--steps", "5", "--html", str(page))
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"https?:|src=|@import|url\(", html)
    ((data,),) = [json.loads(found) for found in re.findall(r'id="data">(.*?)</script>', html)]
    (sample,) = data["samples"]
    assert data["steps"] == [0, 1, 2, 3, 4, 5] and len(sample["frames"]) == 6
    assert sample["given"] == [0, 1, 2, 5, 6, 7, 8, 10] and sample["end"] == 11
    for frame in sample["frames"]:
        assert "".join(data["words"][i] for i in frame[:3]) == "hel"
    first = "".join(data["words"][i] for i in sample["frames"][0][:11])
    assert ("░" in first) == (method == "mdlm")
    assert html.count("<script>") == 1 and data["kind"] == "texts"


def test_a_text_that_closes_the_script_does_not(folder: Path) -> None:
    from simplax.viz.player import player_page
    from simplax.viz.trajectory import trajectory_run

    loaded = from_pretrained(folder / "plain-simplax")
    drawn = loaded.sample(1, seeds=0, trajectory=True)
    object.__setattr__(loaded.tokenizer, "alphabet", "</script>" + loaded.tokenizer.alphabet[9:])  # type: ignore[union-attr]
    assert player_page("Texts", [trajectory_run(loaded, drawn)]).count("</script>") == 2
    with pytest.raises(ValueError, match="trajectory=True"):
        trajectory_run(loaded, loaded.sample(1, seeds=0))


def test_the_bundled_model_writes_and_fills_in(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = from_pretrained("text-mini", device="cpu")
    assert shipped.home is not None
    assert sum(file.stat().st_size for file in shipped.home.iterdir()) < 20_000_000
    assert isinstance(shipped.method, Simplax) and shipped.defaults().num_steps == 128
    text = answer(capsys, "sample", "text-mini", "--num", "1", "--steps", "8", "--prompt", "Fellow citizens")
    assert text.startswith("Fellow citizens") and len(text.split()) > 30
    asked = "The Congress shall <gap:8> before the end of the year."
    filled = answer(capsys, "infill", "text-mini", asked, "--steps", "8")
    assert filled.startswith("The Congress shall") and "before the end of the year." in filled


def test_the_bundled_model_beats_frequencies_on_held_out_text() -> None:
    """Its bound on held-out rows lies below the entropy of single tokens, which needs no model of order at all."""
    shipped = from_pretrained("text-mini", device="cpu")
    task = shipped.config.task
    train = task.train().batch(torch.arange(2000)).tokens
    held_out = task.validation().batch(torch.arange(24)).tokens
    counts = torch.bincount(train.flatten(), minlength=task.vocab_size).double() + 1
    single = -(counts / counts.sum()).log()[held_out].mean()
    bound = shipped.nll(held_out, draws=8, seed=0)
    assert bound.nats_per_token < float(single) - 0.3
