"""Models to the hub and back, against a local stand-in of its HTTP interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("huggingface_hub", reason="models of the hub need huggingface_hub")

from hub_server import Hub, serving
from published_files import LENGTH, ROWS, checkpoint, network
from simplax.cli import main
from simplax.errors import UserError
from simplax.pretrained import from_pretrained
from simplax.pretrained.hub import is_name
from simplax.pretrained.importing.convert import import_model
from simplax.pretrained.model import Model


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub of our own, an empty cache, and nobody's token."""
    from huggingface_hub import constants

    with serving() as server:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        yield server


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = import_model(checkpoint(tmp_path / "last.ckpt", network()), "udlm", name="tiny").save(
        tmp_path / "tiny"
    )
    return from_pretrained(path, device="cpu")


@torch.no_grad()
def test_a_model_comes_back_as_it_was(hub: Hub, model: Model) -> None:
    where = model.push_to_hub("lab/tiny", licence="apache-2.0")
    assert where.startswith(hub.url)
    again = from_pretrained("lab/tiny", device="cpu")
    z, t = torch.randint(ROWS, (2, LENGTH)), torch.tensor([0.3, 0.8])
    assert torch.equal(again.denoiser(z, t), model.denoiser(z, t))
    assert again.config == model.config
    assert again.origin["revision"] == where.rpartition("/")[2]
    assert again.origin["path"] == "lab/tiny"


def test_revisions_are_kept_apart(hub: Hub, model: Model) -> None:
    first = model.push_to_hub("lab/tiny").rpartition("/")[2]
    with torch.no_grad():
        next(model.denoiser.parameters()).add_(1.0)
    model.push_to_hub("lab/tiny")
    old, new = from_pretrained("lab/tiny", revision=first), from_pretrained("lab/tiny")
    difference = next(new.denoiser.parameters()) - next(old.denoiser.parameters())
    torch.testing.assert_close(difference, torch.ones_like(difference))
    with pytest.raises(UserError, match="no such revision"):
        from_pretrained("lab/tiny", revision="v9")


def test_a_fetched_model_needs_no_network(hub: Hub, model: Model) -> None:
    model.push_to_hub("lab/tiny")
    from_pretrained("lab/tiny")
    hub.shutdown()
    hub.server_close()
    assert from_pretrained("lab/tiny").config == model.config
    with pytest.raises(UserError, match="not in the cache"):
        from_pretrained("lab/other")


def test_no_code_is_fetched_and_unknown_keys_are_refused(hub: Hub, model: Model) -> None:
    model.push_to_hub("lab/tiny")
    hub.commit("lab/tiny", {"modeling_tiny.py": b"open('pwned', 'w')", "extra.bin": b"x"})
    loaded = from_pretrained("lab/tiny")
    assert loaded.home is not None
    assert not [name for name in hub.requests if "modeling_tiny.py" in name and "/resolve/" in name]
    assert not (loaded.home / "modeling_tiny.py").exists()
    config = json.loads((loaded.home / "config.json").read_text())
    hub.commit("lab/tiny", {"config.json": json.dumps({**config, "auto_map": {"AutoModel": "x"}}).encode()})
    with pytest.raises(UserError, match="auto_map is not a setting"):
        from_pretrained("lab/tiny")


def test_what_is_not_there_is_told_in_one_sentence(hub: Hub, model: Model) -> None:
    with pytest.raises(UserError, match="neither here nor on the hub"):
        from_pretrained("lab/nothing")
    hub.commit("lab/text", {"README.md": b"hello"})
    with pytest.raises(UserError, match="holds no model of simplax"):
        from_pretrained("lab/text")
    with pytest.raises(UserError, match="ORGANISATION/NAME"):
        model.push_to_hub("tiny")
    with pytest.raises(UserError, match="only models of the hub have revisions"):
        from_pretrained(Path("tiny"), revision="main")


def test_a_mistyped_path_does_not_ask_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    assert is_name("lab/tiny")
    for path in ("models/nothing", "runs/nothing", "./lab/tiny", "../lab/tiny", "/lab/tiny", "a/b/c", "tiny"):
        assert not is_name(path), path


def test_push_writes_a_card_with_numbers(hub: Hub, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "tiny", "likelihood", "--num", "2", "--draws", "1", "--out", "nll.json"]) == 0
    capsys.readouterr()
    arguments = ["push", "tiny", "lab/tiny", "--licence", "mit", "--results", "nll.json", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "lab/tiny"
    files = hub.at("lab/tiny", "main")
    assert files is not None
    assert set(files[1]) == {
        ".gitattributes",
        "README.md",
        "config.json",
        "manifest.json",
        "weights.safetensors",
    }
    card = files[1]["README.md"].decode()
    assert card.startswith('---\nlibrary_name: "simplax"\nlicense: "mit"\n')
    for words in ("nats_per_token", "## Method", "| kind | udlm |", "from_pretrained('lab/tiny')", "sha256"):
        assert words in card, words
    assert main(["push", "tiny", "lab/tiny", "--results", "tiny/config.json"]) == 2
    assert "not the manifest of an evaluation" in capsys.readouterr().err
