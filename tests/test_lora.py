"""Low-rank adapters: what is trained, what is stored, and that merging, resuming and peft all give the same network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from simplax import from_pretrained
from simplax.cli import main
from simplax.errors import UserError
from simplax.interop import lora
from simplax.nn import Architecture, Denoiser
from simplax.nn.lora import target_layers
from simplax.schedules import LogLinear
from test_train_toy import SHORT, assert_same_run, fit, newest, toy

peft = pytest.importorskip("peft", reason="adapters are peft's")

RUN = [
    "--run.batch_size",
    "8",
    "--run.log_every",
    "2",
    "--run.validate_every",
    "0",
    "--run.optimizer.warmup",
    "1",
]
SMALL = ["--architecture.width", "16", "--architecture.depth", "1", "--architecture.cond_dim", "8"]
Z = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2], [4, 4, 3, 2, 1, 1, 0, 2]])
T = torch.tensor([0.3, 0.8])


def train(*arguments: str | Path) -> int:
    return main(["train", "toy-udlm", *map(str, arguments), *SMALL, *RUN, "--device", "cpu"])


def network(seed: int = 0) -> Denoiser:
    """No weight at its initial constant, or half of the network would not matter."""
    torch.manual_seed(seed)
    denoiser = Denoiser(11, 8, Architecture(8, 2, 2, cond_dim=4), time=LogLinear().sigma)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return denoiser.eval()


def moved(module: nn.Module) -> nn.Module:
    """Adapters away from their start, at which they add nothing."""
    with torch.no_grad():
        for name, value in module.named_parameters():
            if "lora_B" in name:
                value.copy_(
                    0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name)))
                )
    return module


@torch.no_grad()
def test_adapters_start_as_nothing_and_merge_to_the_same_network() -> None:
    denoiser = network()
    plain, names = denoiser(Z, T), list(denoiser.state_dict())
    layers = target_layers(denoiser)
    assert len(layers) == 8 and all(name.startswith("blocks.") for name in layers)
    weight = denoiser.blocks[0].attn_out.weight.clone()  # type: ignore[union-attr, operator]
    lora.adapt(denoiser, lora.Lora(rank=2, alpha=6.0), seed=3)
    trained = [name for name, value in denoiser.named_parameters() if value.requires_grad]
    assert len(trained) == 16 and all(".lora_" in name for name in trained)
    assert torch.equal(denoiser(Z, T), plain)
    moved(denoiser)
    state = {name: value.clone() for name, value in denoiser.state_dict().items()}
    apart = denoiser(Z, T)
    assert not torch.allclose(apart, plain, atol=1e-3)
    lora.merge(denoiser)
    assert list(denoiser.state_dict()) == names and all(p.requires_grad for p in denoiser.parameters())
    torch.testing.assert_close(denoiser(Z, T), apart, rtol=1e-5, atol=1e-5)
    a, b = (state[f"blocks.0.attn_out.lora_{part}.default.weight"] for part in "AB")
    expected = weight + 6.0 / 2 * b @ a  # the definition
    torch.testing.assert_close(denoiser.blocks[0].attn_out.weight, expected)  # type: ignore[union-attr]


def test_the_start_depends_on_the_seed_alone() -> None:
    starts = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(starts))
        denoiser = lora.adapt(network(), lora.Lora(), seed)
        starts.append(denoiser.state_dict()["blocks.0.attn_qkv.lora_A.default.weight"])
    assert torch.equal(starts[0], starts[1]) and not torch.equal(starts[1], starts[2])


def test_layers_are_chosen_by_name_and_mistakes_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    denoiser = network()
    assert target_layers(denoiser, ["attn_qkv", "output_layer.linear"]) == [
        "blocks.0.attn_qkv", "blocks.1.attn_qkv", "output_layer.linear",
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"no linear layer 'atn_qkv'.*attn_qkv"):
        target_layers(denoiser, ["atn_qkv"])
    assert target_layers(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))) == ["0", "2"]
    with pytest.raises(UserError, match="no linear layers"):
        target_layers(nn.Embedding(3, 2))
    lora.adapt(denoiser, lora.Lora())
    with pytest.raises(UserError, match="has adapters already"):
        lora.adapt(denoiser, lora.Lora())
    for bad in ({"rank": 0}, {"dropout": 1.0}):
        with pytest.raises(UserError):
            lora.Lora(**bad)  # type: ignore[arg-type]
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(UserError, match=r"pip install \"simplax\[lora\]\""):
        lora.adapt(network(), lora.Lora())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_foreign_module_trains_only_its_adapters_and_resumes_bit_for_bit(
    optimizer: str, tmp_path: Path
) -> None:
    def adapted(seed: int = 0) -> nn.Module:
        return lora.adapt(toy(seed=seed, dropout=0.2), lora.Lora(rank=2, dropout=0.1))

    run = replace(SHORT, optimizer=replace(SHORT.optimizer, name=optimizer), ema=0.5)
    fit(tmp_path / "whole", adapted(), run)
    fit(tmp_path / "cut", adapted(), replace(run, steps=4))
    fit(tmp_path / "cut", adapted(seed=99), run)  # the frozen weights come from the run, not from here
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    stored = newest(tmp_path / "cut")
    assert {name.split(".lora_")[0] for name in stored.weights} == {
        "scale", "blocks.0.mix", "blocks.0.out", "blocks.1.mix", "blocks.1.out",
    }  # fmt: skip
    base = load_file(tmp_path / "cut" / "base.safetensors")
    before = {name: value for name, value in toy().state_dict().items() if name != "scale"}
    assert base.keys() == before.keys() and all(torch.equal(base[name], before[name]) for name in base)
    network = adapted(seed=5)
    fit(tmp_path / "cut", network, run)
    lora.save(network, tmp_path / "kept")
    other = lora.load(lora.adapt(toy(), lora.Lora(rank=2, dropout=0.1)), tmp_path / "kept").eval()
    z, t = torch.zeros(1, 6, dtype=torch.long), torch.tensor([0.5])
    assert torch.equal(other(z, t), network.eval()(z, t))
    with pytest.raises(UserError, match="other settings"):
        lora.load(lora.adapt(toy(), lora.Lora(rank=3)), tmp_path / "kept")
    file = tmp_path / "cut" / "base.safetensors"
    save_file({**base, "head.bias": base["head.bias"] + 1}, file)
    with pytest.raises(UserError, match="belong to other weights"):
        fit(tmp_path / "cut", adapted(), replace(run, steps=8))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and adapters trained for it by the command line."""
    folder = tmp_path_factory.mktemp("lora")
    assert train("--out", folder / "first", "--run.steps", "6") == 0
    options = ["--init-from", folder / "first", "--run.seed", "7", "--lora.rank", "2"]
    assert train("--out", folder / "tuned", "--run.steps", "8", "--run.save_every", "4", *options) == 0
    return folder


@torch.no_grad()
def logits(path: Path, **options: str) -> Tensor:
    return from_pretrained(path, device="cpu", **options).denoiser(Z, T)  # type: ignore[arg-type]


def test_the_command_line_trains_exports_and_loads_adapters(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = logits(runs / "tuned")
    assert not torch.allclose(tuned, logits(runs / "first"), atol=1e-4)
    stored = newest(runs / "tuned").weights
    assert (
        not any(name.endswith("attn_out.weight") for name in stored) and "blocks.0.mlp.0.bias" not in stored
    )
    assert main(["export", str(runs / "tuned"), str(tmp_path / "merged")]) == 0
    assert main(["export", str(runs / "tuned"), str(tmp_path / "apart"), "--adapter"]) == 0
    assert torch.equal(logits(tmp_path / "merged"), tuned)
    assert torch.equal(logits(tmp_path / "apart"), tuned)  # with the model that its manifest names
    assert json.loads((tmp_path / "merged" / "config.json").read_text())["lora"] is None
    assert main(["export", str(runs / "first"), str(tmp_path / "base")]) == 0
    assert torch.equal(logits(tmp_path / "apart", base=str(tmp_path / "base")), tuned)
    again = [str(tmp_path / name) for name in ("apart", "again")]
    assert main(["export", *again, "--base", str(tmp_path / "base")]) == 0
    assert torch.equal(logits(tmp_path / "again"), tuned)
    assert main(["sample", str(tmp_path / "apart"), "--num", "2", "--steps", "2", "--device", "cpu"]) == 0
    capsys.readouterr()


@torch.no_grad()
def test_peft_itself_loads_what_is_exported(runs: Path, tmp_path: Path) -> None:
    assert main(["export", str(runs / "tuned"), str(tmp_path / "apart"), "--adapter"]) == 0
    base = from_pretrained(runs / "first", device="cpu").denoiser
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "apart").eval()
    tuned = logits(runs / "tuned")
    torch.testing.assert_close(theirs(Z, T), tuned, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(theirs.merge_and_unload()(Z, T), tuned, rtol=1e-5, atol=1e-5)


def test_a_tuned_model_is_a_start_like_any_other(runs: Path, tmp_path: Path) -> None:
    """Full fine-tuning, and adapters again, begin with the merged weights."""
    for name, more, weights in (("full", [], "raw"), ("more", ["--lora.rank", "1"], "ema")):
        options = [
            "--init-from",
            runs / "tuned",
            "--run.seed",
            "9",
            "--run.optimizer.learning_rate",
            "0",
            *more,
        ]
        assert train("--out", tmp_path / name, "--run.steps", "2", *options) == 0
        assert torch.equal(logits(tmp_path / name, weights=weights), logits(runs / "tuned", weights=weights))


def test_mistakes_get_one_sentence(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, tuned = runs / "first", runs / "tuned"
    assert main(["export", str(tuned), str(tmp_path / "apart"), "--adapter"]) == 0
    assert main(["export", str(tuned), str(tmp_path / "other")]) == 0
    capsys.readouterr()
    with_vocabulary = ["--init-from", first, "--task.categories", "6", "--run.steps", "2"]
    for said, status in {
        "name it with --init-from": train("--out", tmp_path / "a", "--lora.rank", "2"),
        "trained on 5 categories and this run has 6": train(
            "--out", tmp_path / "b", *with_vocabulary, "--lora.rank", "2"
        ),
        "trained on 5 categories and this run has 6 ": train("--out", tmp_path / "c", *with_vocabulary),
        "no linear layer 'qkv'": train(
            "--out", tmp_path / "d", "--init-from", first, "--lora.targets", "qkv"
        ),
        "merge them with `simplax export": train("--out", tmp_path / "e", "--init-from", tmp_path / "apart"),
        "was not trained with adapters": main(["export", str(first), str(tmp_path / "f"), "--adapter"]),
        "adapters of another model": main(
            ["export", str(tmp_path / "apart"), str(tmp_path / "g"), "--base", str(tmp_path / "other")]
        ),
        "leave out the base": main(["export", str(first), str(tmp_path / "h"), "--base", str(first)]),
    }.items():
        assert status == 2, said
    printed = capsys.readouterr().err
    for said in ("name it with --init-from", "this run has 6", "'qkv'", "adapters of another model"):
        assert said in printed
    assert "Traceback" not in printed
