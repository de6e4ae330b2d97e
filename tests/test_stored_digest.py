"""Stored results that were changed after they were written are noticed; a full disk under weights is an OSError."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax.cli import main
from simplax.io import manifest
from simplax.io.digest import with_digest, without_digest
from simplax.io.files import write_tensors
from test_compare import likelihood


def test_a_record_comes_back_without_its_digest() -> None:
    record = {"b": (1, 2.5), "a": {"x": None}}
    stored = json.loads(json.dumps(with_digest(record)))
    assert without_digest(stored) == {"b": [1, 2.5], "a": {"x": None}}


def test_any_other_value_is_noticed() -> None:
    stored = with_digest({"value": 0.25, "settings": {"calls": 32}})
    assert without_digest({**stored, "value": 0.35}) is None
    assert without_digest({**stored, "settings": {"calls": 33}}) is None
    assert without_digest({**stored, "more": 1}) is None
    assert without_digest({"value": 0.25}) == {"value": 0.25}  # of an older version


def test_a_result_that_was_changed_says_so(tmp_path: Path) -> None:
    path = manifest.write(
        tmp_path / "result.json", {"evaluation": "likelihood", "result": {"perplexity": 12.5}}
    )
    path.write_text(path.read_text().replace("12.5", "11.5"))
    assert manifest.read(path) == ({"evaluation": "likelihood", "result": {"perplexity": 11.5}}, False)


def test_numbers_that_changed_are_shown_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = manifest.write(tmp_path / "result.json", likelihood(2.25))
    assert main(["compare", str(path), "--json"]) == 0 and not caplog.records
    path.write_text(path.read_text().replace("2.25", "2.15"))
    capsys.readouterr()
    assert main(["compare", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["likelihood"][0]["values"]["nats per token"] == 2.15
    assert "is not as it was written" in caplog.text


def test_a_full_disk_under_weights_is_an_os_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch
    from safetensors import SafetensorError

    def full(*arguments: Any, **more: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(2)})
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_sentence_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.json")

    monkeypatch.setattr("simplax.cli._dispatch", full)
    assert main(["evaluate"]) == 2
    said = capsys.readouterr().err
    assert (
        said
        == "simplax: out.json cannot be used: No space left on device: make room, then give the same command again.\n"
    )
