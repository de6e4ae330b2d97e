"""Stored results that were changed after they were written are refused; a full disk under weights is an OSError."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax.cli import main
from simplax.errors import UserError
from simplax.io import manifest
from simplax.io.digest import with_digest, without_digest
from simplax.io.files import write_tensors


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


def test_a_changed_result_is_refused_where_results_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = manifest.write(
        tmp_path / "result.json", {"evaluation": "likelihood", "result": {"perplexity": 12.5}}
    )
    path.write_text(path.read_text().replace("12.5", "11.5"))
    with pytest.raises(UserError, match="not as it was written"):
        manifest.read(path)
    for verb in ("compare", "rerun"):
        assert main([verb, str(path)]) == 2
        assert "is not as it was written: measure it again." in capsys.readouterr().err


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
