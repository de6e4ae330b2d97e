"""Real checkpoints of MDLM, UDLM and Duo give the numbers that their own code gave."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from published_files import published
from simplax.cli import main
from simplax.errors import UserError
from simplax.functional import masked_rate, uniform_rate
from simplax.methods import AR, MDLM, UDLM, DuoBase, Simplax
from simplax.pretrained import from_pretrained
from simplax.pretrained.importing.convert import Request, import_model
from simplax.pretrained.importing.projects import ProjectName
from simplax.pretrained.model import Model
from simplax.random import Keys
from simplax.schedules import LogLinear
from simplax.typing import Batch, StepContext

DIFFUSION = ["mdlm", "mdlm-bert", "udlm", "udlm-cfg", "duo", "duo-ch1"]
METHODS = {"mdlm": MDLM, "udlm": UDLM, "duo": DuoBase}


def project(name: str) -> ProjectName:
    short = name.split("-")[0]
    assert short == "mdlm" or short == "udlm" or short == "duo"
    return short


def numbers(name: str) -> dict[str, Tensor]:
    with np.load(published() / name / "io.npz") as stored:
        return {key: torch.from_numpy(np.asarray(stored[key])) for key in stored.files}


def expected(name: str) -> dict[str, object]:
    data: dict[str, object] = json.loads((published() / name / "about.json").read_text())
    return data


def imported(name: str, file: str, tmp_path: Path, **options: object) -> Model:
    """By way of the disk, as a user has it."""
    request = Request(drop_classes=name == "udlm-cfg", **options)  # type: ignore[arg-type]
    path = import_model(published() / name / file, project(name), request).save(tmp_path / "model")
    return from_pretrained(path, device="cpu")


def shown(model: Model, z: Tensor, mask: int | None) -> Tensor:
    """Their noisy ids as ours: our mask is the id after the categories."""
    if not isinstance(model.method, MDLM) or mask is None:
        return z
    return torch.where(z == mask, model.config.task.vocab_size, z)


def check_logits(mine: Tensor, theirs: Tensor, mask: int | None) -> None:
    """Equal but for the output of the mask, which their losses and samplers make impossible."""
    keep = [k for k in range(theirs.shape[-1]) if k != mask]
    torch.testing.assert_close(mine[..., keep], theirs[..., keep], rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("weights", ["ema", "raw"])
@pytest.mark.parametrize("name", DIFFUSION)
def test_logits_and_losses_are_theirs(name: str, weights: str, tmp_path: Path) -> None:
    model, theirs = imported(name, "last.ckpt", tmp_path, weights=weights), numbers(name)
    assert type(model.method) is METHODS[project(name)]
    masked = isinstance(model.method, MDLM)
    mask = expected(name)["mask_index"] if masked else None
    assert mask is None or isinstance(mask, int)
    x, t, z = theirs["x"], theirs["t"], theirs["z"]
    logits = model.denoiser(shown(model, z, mask), t)
    check_logits(logits, theirs[f"logits_{weights}"], mask)
    short = model.denoiser(shown(model, theirs["z_short"], mask), t[:2])
    check_logits(short, theirs[f"logits_short_{weights}"], mask)
    if "soft_logits_in" in theirs:
        soft = model.denoiser(theirs["soft_logits_in"].softmax(-1), t[:2])
        check_logits(soft, theirs[f"logits_soft_{weights}"], None)
    time = t.double().unsqueeze(-1)
    schedule = LogLinear()
    if masked:
        log_probs = logits.double().log_softmax(-1)
        hidden = z == mask
        check_logits(log_probs.float()[hidden], theirs[f"log_probs_{weights}"][hidden], mask)
        mine = -log_probs.gather(-1, x.unsqueeze(-1)).squeeze(-1) * hidden / time
    else:
        log_probs = logits.double().log_softmax(-1)
        check_logits(log_probs.float(), theirs[f"log_probs_{weights}"], None)
        # UDLM's loss takes alpha = 1 - t, though its network is told the sigma of the schedule with eps
        alpha = 1 - time if project(name) == "udlm" else schedule.alpha(time)
        rate = 1 / alpha if project(name) == "udlm" else schedule.rate(time)
        mine = uniform_rate(x, log_probs.exp(), z, alpha_t=alpha, rate=rate)
    torch.testing.assert_close(mine.float(), theirs[f"nll_{weights}"], rtol=1e-5, atol=1e-5)
    assert float(mine.mean()) == pytest.approx(expected(name)[f"loss_{weights}"], rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("weights", ["ema", "raw"])
def test_the_autoregressive_baseline(weights: str, tmp_path: Path) -> None:
    model, theirs = imported("mdlm-ar", "last.ckpt", tmp_path, weights=weights), numbers("mdlm-ar")
    assert isinstance(model.method, AR)
    x = theirs["x"]
    check_logits(model.denoiser(x), theirs[f"logits_{weights}"], 37)
    check_logits(model.denoiser(x).log_softmax(-1), theirs[f"log_probs_{weights}"], 37)
    context = StepContext(Keys.from_seeds(torch.arange(4)), torch.zeros(4))
    loss = model.method.loss(model.denoiser, Batch.of(x), context)
    torch.testing.assert_close(loss.per_token[:, 1:], theirs[f"nll_{weights}"], rtol=1e-5, atol=1e-5)
    assert float(loss.mean()) == pytest.approx(expected("mdlm-ar")[f"loss_{weights}"], rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "file", "options"),
    [
        ("mdlm", "hf", {}),
        ("mdlm", "hub-mixin", {"length": 24}),
        ("udlm", "hf", {}),
        ("udlm-cfg", "hf", {}),
        ("duo", "hf", {}),
        ("duo", "hf-bin", {}),
    ],
)
def test_hugging_face_directories_give_the_averaged_weights(
    name: str, file: str, options: dict[str, int], tmp_path: Path
) -> None:
    model, theirs = imported(name, file, tmp_path, **options), numbers(name)
    mask = 37 if name == "mdlm" else None
    check_logits(model.denoiser(shown(model, theirs["z"], mask), theirs["t"]), theirs["logits_ema"], mask)
    assert model.origin["weights"] == "ema"


@torch.no_grad()
def test_the_library_s_own_losses_are_theirs_at_their_noise(tmp_path: Path) -> None:
    """The masked density on the imported network's logits, mask and all, is the published loss."""
    model, theirs = imported("mdlm-bert", "last.ckpt", tmp_path), numbers("mdlm-bert")
    size = model.config.task.vocab_size
    z, t = shown(model, theirs["z"], 4), theirs["t"]
    x_hat = model.denoiser(z, t).double().softmax(-1)
    time = t.double().unsqueeze(-1)
    value = masked_rate(theirs["x"], x_hat, z, LogLinear().alpha(time), LogLinear().rate(time), mask_id=size)
    torch.testing.assert_close(value.float(), theirs["nll_ema"], rtol=1e-5, atol=1e-5)


def test_class_conditional_models_are_not_imported_by_accident(tmp_path: Path) -> None:
    for file in ("last.ckpt", "hf"):
        with pytest.raises(UserError, match="conditioned on 2 classes"):
            import_model(published() / "udlm-cfg" / file, "udlm")


@pytest.mark.parametrize("name", ["mdlm", "mdlm-bert", "mdlm-ar", "udlm", "duo"])
def test_an_imported_model_samples_and_has_a_likelihood(name: str, tmp_path: Path) -> None:
    model, theirs = imported(name, "last.ckpt", tmp_path), numbers(name)
    about = expected(name)
    held: dict[str, Tensor] = {}
    steps: int | None = 4
    if isinstance(model.method, AR):  # one that begins with the start symbol of its data
        steps, first = None, torch.arange(24) == 0
        held = {"tokens": torch.full((3, 24), 36), "given": first.expand(3, 24)}
    tokens = model.sample(3, num_steps=steps, seeds=0, **held).tokens
    assert tokens.shape == (3, 24) and int(tokens.max()) < model.config.task.vocab_size
    if about["noise"] != "uniform":
        assert not bool((tokens == about["mask_index"]).any())
    value = model.nll(theirs["x"], draws=64)
    # their loss has four times only; ours is the mean over all, of the same magnitude
    assert 0.1 < value.nats_per_token / float(theirs["loss_ema"]) < 10
    assert model.tokenizer is not None
    assert model.tokenizer.vocab_size == model.config.task.vocab_size
    assert "a" in model.decode(torch.arange(24).unsqueeze(0))[0]


def run(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Prepared sequences of 24 of the same 37 symbols."""
    lines = (" ".join("012345abcdef"[(i * 7 + j) % 12] for j in range(30)) for i in range(60))
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    return tmp_path / "data"


@pytest.mark.parametrize(("name", "recipe"), [("udlm", "text-mini-udlm"), ("mdlm", "text-mini-mdlm")])
def test_fine_tuning_an_imported_model(name: str, recipe: str, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    run("import", published() / name / "last.ckpt", "--from", name, "--out", model, "--data", data)
    run(
        "data", "text", tmp_path / "text.txt", "--tokenizer", model, "--length", 24, "--out", data,
        "--separator", "\\n\\n", "--split", "10%",
    )  # fmt: skip
    run("evaluate", model, "likelihood", "--num", 4, "--draws", 2, "--out", tmp_path / "likelihood.json")
    run("sample", model, "--num", 2, "--steps", 2)
    settings = [
        "--config",
        model / "config.json",
        "--init-from",
        model,
        "--run.steps",
        3,
        "--run.batch_size",
        4,
    ]
    run("train", recipe, *settings, "--out", tmp_path / "run")
    tuned, before = from_pretrained(tmp_path / "run"), from_pretrained(model)
    assert type(tuned.method) is type(before.method)
    assert tuned.origin["started_from"]["sha256"] == before.origin["sha256"]


@pytest.mark.parametrize("name", ["udlm", "mdlm", "mdlm-bert", "duo"])
def test_a_simplax_phase_starts_from_any_of_them(name: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    run(
        "import", published() / name / "last.ckpt", "--from", project(name), "--as", "simplax", "--out", model
    )
    run(
        "train", "text-mini-simplax", "--config", model / "config.json", "--init-from", model,
        "--run.steps", 2, "--run.batch_size", 4, "--out", tmp_path / "run",
    )  # fmt: skip
    assert isinstance(from_pretrained(tmp_path / "run").method, Simplax)


def test_the_malicious_file_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = published() / "malicious" / "reduce.ckpt"
    assert main(["import", str(file), "--from", "mdlm", "--out", "model"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1 and "nothing was run" in complaint
    assert list(tmp_path.iterdir()) == []


def test_what_a_file_does_not_say_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--length"):
        import_model(published() / "mdlm" / "hub-mixin", "mdlm")
    with pytest.raises(UserError, match="say --from udlm"):
        import_model(published() / "udlm" / "last.ckpt", "mdlm")
    with pytest.raises(UserError, match="say --from udlm"):
        import_model(published() / "udlm" / "hf", "mdlm")
    with pytest.raises(UserError, match="say --from duo"):
        import_model(published() / "duo" / "last.ckpt", "mdlm")
    with pytest.raises(UserError, match="no input for the time"):
        import_model(published() / "mdlm-ar" / "last.ckpt", "mdlm", Request(as_method="simplax"))


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, on a real checkpoint of the project each names, with short sequences and few steps."""
    monkeypatch.chdir(tmp_path)
    lines = (" ".join("012345abcdef"[(i * 7 + j) % 12] for j in range(30)) for i in range(200))
    Path("mine.txt").write_text("\n".join(lines))
    page = (Path(__file__).parents[1] / "docs" / "interop.md").read_text()
    page = re.sub(r"^## The hub$.*?(?=^## )", "", page, flags=re.MULTILINE | re.DOTALL)  # has its own test
    commands = re.findall(r"^    simplax ((?!: ).*)$", page, re.MULTILINE)
    shorter = {"data": ["--separator", "\\n"], "train": ["--run.steps", "2", "--run.batch_size", "2"]}
    for command in commands:
        words = shlex.split(command.replace("--length 1024", "--length 24"))
        if "last.ckpt" in words:
            origin = words[words.index("--from") + 1]
            words[words.index("last.ckpt")] = str(published() / origin / "last.ckpt")
        run(*words, *shorter.get(words[0], []))
    assert len(commands) >= 14 and Path("runs/simplax/latest").is_file()
