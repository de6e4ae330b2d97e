"""The report of the fault campaign: kinds repeated alone replace theirs, and what failed is said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "faults"))

import report


def kind(outcome: str, times: int, command: str = "campaign", damages: bool = True) -> dict[str, Any]:
    return {"command": command, "seconds": 60.0, "damages": damages, "outcomes": {outcome: times}}


def test_what_was_repeated_replaces_its_kind_and_nothing_else(tmp_path: Path) -> None:
    names = ["killed", "cut", "full"]
    whole = {"killed": kind("went on", 3, damages=False), "cut": kind("FAILED: other bits", 1)}
    report.write(tmp_path, report.merged({}, whole, names))
    assert "Failed: cut." in (tmp_path / "README.md").read_text()
    again = {"cut": kind("one sentence", 7, "campaign --only cut")}
    report.write(tmp_path, report.merged(report.read(tmp_path), again, names))
    assert report.read(tmp_path) == {"killed": whole["killed"], "cut": again["cut"]}
    text = (tmp_path / "README.md").read_text()
    assert "7 files were damaged. Nothing failed." in text and "| cut | one sentence | 7 |" in text
    assert "`campaign --only cut`, 1 minutes (cut)" in text and "FAILED" not in text


def test_kinds_that_are_no_more_leave_the_report(tmp_path: Path) -> None:
    report.write(tmp_path, {"gone": kind("went on", 1), "kept": kind("went on", 2)})
    assert list(report.merged(report.read(tmp_path), {}, ["kept", "new"])) == ["kept"]
    assert report.read(tmp_path / "nowhere") == {}
