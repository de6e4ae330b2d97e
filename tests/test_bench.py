"""The bench: what it calls a ratio and a peak, and that every number it promises is there. No times are judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simplax.bench import growth, run, steps
from simplax.bench.measure import Race, Spread, peak_bytes, race
from simplax.cli import main

TINY = steps.Size("quick", 16, 1, 1, 1100, 8, 2)


def test_ratios_are_taken_within_rounds() -> None:
    """A machine that halves its speed midway changes no ratio."""
    slow = Race({"a": [1.0, 1.1, 2.2, 2.0], "b": [0.5, 0.55, 1.1, 1.0]})
    assert slow.ratio("a", "b") == Spread(2.0, 2.0, 2.0, 4)
    assert slow.time("b").low < slow.time("b").median < slow.time("b").high


def test_contestants_take_turns_and_all_run_equally_often() -> None:
    log: list[str] = []
    result = race({name: lambda name=name: log.append(name) for name in "abc"}, 0.0, at_least=4)  # type: ignore[misc]
    assert log[:3] == list("abc")  # the warm-up
    assert log[3:] == list("abc" + "bca" + "cab" + "abc")
    assert all(len(seconds) == 4 for seconds in result.seconds.values())


def test_peak_counts_what_lives_at_once() -> None:
    def work() -> None:
        a = torch.zeros(1000, dtype=torch.float64)
        b = torch.zeros(500, dtype=torch.float64)
        del a
        c = torch.zeros(700, dtype=torch.float64)
        del b, c

    assert peak_bytes(work) == 12_000
    assert peak_bytes(work, ignore={8000}) == 9600


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(steps.SIZES, "quick", TINY)
    monkeypatch.setattr(run, "QUICK", run.Plan(("quick",), (0.0,), (0.0,), (0.0,)))
    axes = {"vocabulary": (100, 200), "length": (4, 8), "atoms": (2, 3), "batch": (1, 2)}
    monkeypatch.setattr(growth, "QUICK_AXES", axes)


def test_the_report_has_every_promised_ratio(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    figure = tmp_path / "bench.png"
    assert main(["bench", "--quick", "--json", "--figure", str(tmp_path / "other.svg")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (
        set(report["ratios"])
        == set(run.RATIOS)
        >= {
            "train_vs_floor",
            "train_vs_udlm",
            "memory_vs_plain",
            "sample_vs_floor",
            "dense_vs_ours",
            "draw_dense_vs_atoms",
        }
    )
    assert all(value > 0 for value in report["ratios"].values())
    assert report["precision"] in ("float32", "bfloat16")
    assert (tmp_path / "other.svg").exists() and not figure.exists()
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "--quick"]) == 0
    assert "train_vs_floor" in capsys.readouterr().out
    assert figure.stat().st_size > 0


def test_growth_is_measured_along_every_axis(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert main(["bench", "--growth", "--quick", "--json", "--figure", str(tmp_path / "growth.svg")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["vocabulary", "length", "atoms", "batch"]
    for part in report.values():
        for column in part["measured"].values():
            assert len(column["seconds"]) == len(column["bytes"]) == 2


def test_memory_is_flat_in_the_vocabulary_but_for_the_projection() -> None:
    small, large = (growth.contestants(growth.Point(vocabulary=k)) for k in (1000, 30_000))
    flat = ("draw the state, atoms", "draw the state, marginal")
    for name in small:
        ratio = peak_bytes(large[name]) / peak_bytes(small[name])
        assert ratio == 1 if name in flat else ratio < 40, (name, ratio)


def test_the_literal_step_is_the_same_objective() -> None:
    """Constants that the paper drops aside, which have no gradient."""
    bench = steps.Bench(TINY, "float32")
    found = []
    for step in (bench.train_literal, lambda: bench.train(replace(bench.simplax, form="dense"))):
        step()
        found.append(torch.cat([p.grad.flatten() for p in bench.denoiser.parameters() if p.grad is not None]))
    assert (found[0] - found[1]).norm() < 1e-3 * found[1].norm()
