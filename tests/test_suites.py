"""Suites: killed, shared and repeated they end with the same numbers, and rows that are not alike are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import simplax
from simplax.cli import main
from simplax.methods import MDLM, METHODS, Facts
from simplax.pretrained.model import Model
from simplax.recipes.launch import build
from simplax.suites.benchmark import Surroundings
from simplax.suites.catalogue import SUITES, declare
from simplax.suites.declared import Options, Suite
from simplax.suites.fair import parameters, refusals
from simplax.suites.pace import Pace
from simplax.suites.runner import Runner
from simplax.suites.store import Store, read
from simplax.suites.table import table
from simplax.suites.work import fitting_setting, with_setting

SMALL = ["--budget-steps", "30", "--num", "30", "--precision", "float32"]
OPTIONS = Options(budget_steps=30, num=30, precision="float32")
ROWS = ("mdlm-seed0", "simplax-seed0")


def command(out: Path) -> list[str]:
    return [sys.executable, "-m", "simplax", "suite", "run", "toy", "--out", str(out), *SMALL]


def start(out: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def record(out: Path, row: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results" / f"{row}.json").read_text())
    return found


def numbers(out: Path) -> dict[str, Any]:
    """Everything a suite found out, without times and places."""
    found = {}
    for row in ROWS:
        one = record(out, row)
        scores = {
            group: [(each["setting"], each["score"], each["nfe"]) for each in tries]
            for group, tries in one["development"].items()
        }
        points = {
            key: {name: value for name, value in point.items() if name != "seconds"}
            for key, point in one["points"].items()
        }
        found[row] = (one["identity"], one["manifest"]["model"]["sha256"], scores, one["chosen"], points)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy suite, run without interruption in a process of its own, as the others are."""
    out = tmp_path_factory.mktemp("whole") / "toy"
    done = start(out)
    _, said = done.communicate(timeout=1200)
    assert done.returncode == 0, said
    assert "2 trainings, 0 of them done" in said and "about" in said
    return out


def test_everything_is_kept(whole: Path, caplog: pytest.LogCaptureFixture) -> None:
    for row in ROWS:
        simplax.from_pretrained(whole / "models" / row)
        assert not caplog.records  # a configuration that is not the exported one is warned of
        one = record(whole, row)
        about = one["manifest"]
        assert set(one["points"]) == {"6", "0"} and len(one["development"]["clues"]) == 6
        best = max(each["score"] for each in one["development"]["clues"])
        assert one["development"]["clues"][one["chosen"]["clues"]]["score"] == best
        assert about["dtype"]["network"] == "float32" and about["machine"]["threads"] == 1
        assert about["command"].startswith("simplax suite run toy") and about["versions"]["torch"]
        for point in one["points"].values():
            assert 0 < point["nfe"] <= 16 and point["num"] == 30
            assert point["block_passes"] == pytest.approx(2 * point["nfe"])
        weights = whole / "models" / row / "weights.safetensors"
        assert weights.stat().st_size < 2.2 * about["parameters"] + 20_000  # half precision
    assert record(whole, "simplax-seed0")["points"]["6"]["facts"]["cells"] > 0


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 1200
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_at_any_point_it_ends_with_the_same_numbers(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy"
    first, second = (out / "results" / f"{row}.json" for row in ROWS)
    moments = [
        lambda: any((tmp_path / "runs").glob("*/latest")),  # in training, after the first checkpoint
        first.exists,  # while settings are tried
        second.exists,
    ]
    for moment in moments:
        process = start(out)
        wait_for(moment, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(out)
    _, said = process.communicate(timeout=1200)
    assert process.returncode == 0, said
    assert numbers(out) == numbers(whole)
    before = {path: path.read_bytes() for path in out.glob("results/*.json")}
    again = subprocess.run(command(out), capture_output=True, text=True)
    assert again.returncode == 0 and "2 of them done" in again.stderr
    assert before == {path: path.read_bytes() for path in out.glob("results/*.json")}


@pytest.mark.slow
def test_two_processes_share_the_jobs(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy"
    both = [start(out), start(out)]
    said = [process.communicate(timeout=1200)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    done = [line for text in said for line in text.splitlines() if "-seed0: done" in line]
    assert len(done) == 2 and {line.split(":")[0] for line in done} == set(ROWS)
    assert numbers(out) == numbers(whole)


def test_a_digit_changed_in_a_stored_row_is_no_other_number(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy"
    shutil.copytree(whole, out)
    path = out / "results" / f"{ROWS[0]}.json"
    stored = path.read_text()
    score = f'"score": {record(out, ROWS[0])["development"]["clues"][0]["score"]}'
    path.write_text(stored.replace(score, '"score": 0.987'))
    assert path.read_text() != stored
    assert read(path) is None
    path.write_text(stored)
    assert read(path) is not None


def test_a_directory_is_for_one_set_of_options(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["suite", "run", "toy", "--out", str(whole), "--budget-steps", "31"]
    assert main(arguments) == 2
    assert "name another directory" in capsys.readouterr().err


def test_a_row_that_fails_is_shown_and_the_rest_goes_on(tmp_path: Path) -> None:
    suite = declare("toy", OPTIONS)
    suite = replace(suite, benchmark=replace(suite.benchmark, develop_num=4, num=4))  # type: ignore[type-var]
    # a sampler that undoes another process than MDLM's
    wrong = tuple(replace(one, sampler=suite.entries[1].tries[0].sampler) for one in suite.entries[0].tries)
    suite = replace(suite, entries=(replace(suite.entries[0], tries=wrong), suite.entries[1]))
    store = Store.at(tmp_path / "toy")
    runner = Runner(suite, OPTIONS, store)
    runner.run(Pace({}))
    lines = {line.name: line for line in table(suite, store).lines}
    assert "choose a sampler of its own" in lines["mdlm"].state and not lines["mdlm"].cells
    assert set(lines["simplax"].cells) == {"6", "0"}
    assert not runner.done(runner.jobs()[0]) and runner.done(runner.jobs()[1])


def test_a_setting_with_more_calls_is_not_chosen(tmp_path: Path) -> None:
    """Ten masked cells need ten calls of the first-hitting sampler; every row may make eight."""
    suite = declare("toy", OPTIONS)
    benchmark: Any = replace(suite.benchmark, calls=8, develop_num=4, num=4)  # type: ignore[type-var]
    suite = replace(suite, benchmark=benchmark, entries=suite.entries[:1])
    Runner(suite, OPTIONS, Store.at(tmp_path / "toy")).run(Pace({}))
    one = record(tmp_path / "toy", "mdlm-seed0")
    assert [each["allowed"] for each in one["development"]["clues"]] == [True] * 3 + [False] * 3
    assert one["chosen"]["clues"] < 3 and all(point["nfe"] <= 8 for point in one["points"].values())


def test_suites_beside_each_other_train_and_measure_the_same_thing_once(whole: Path, tmp_path: Path) -> None:
    """Weights and rows of another suite are taken over; the weights stay where they are."""
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(whole, first)
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    suite, store = declare("toy", OPTIONS), Store.at(second, tmp_path / "no-runs")
    runner = Runner(suite, OPTIONS, store)
    assert all(cost.train == 0 for cost in runner.plan().values())
    runner.run(Pace({}))
    assert not store.runs.joinpath(suite.jobs()[0].key).exists() and not (second / "models").exists()
    assert numbers(second) == numbers(first)
    assert record(second, ROWS[0])["manifest"]["model"]["path"] == f"../first/models/{ROWS[0]}"
    assert all(runner.done(job) for job in runner.jobs())
    assert before == {path: path.read_bytes() for path in before}


def test_a_column_takes_the_best_setting_that_fits_its_calls() -> None:
    """A blank row of 22 tokens needs 22 calls of the first-hitting sampler; the ancestral one has no such number."""
    suite = declare("molecules", Options())
    entry = next(entry for entry in suite.entries if entry.name == "mdlm")
    ancestral, first_hitting = entry.tries[0], entry.tries[3]
    model = Model(torch.nn.Identity(), entry.config)
    fitting = {
        point.calls: fitting_setting([first_hitting, ancestral], point, model)
        for point in suite.benchmark.points()
    }
    assert fitting[8] == fitting[16] == ancestral and fitting[32] == fitting[256] == first_hitting
    assert fitting_setting([first_hitting], suite.benchmark.points()[0], model) is None


def test_changed_settings_are_measured_again(whole: Path) -> None:
    suite, store = declare("toy", OPTIONS), Store.at(whole)
    runner = Runner(suite, OPTIONS, store)
    assert all(runner.done(job) for job in runner.jobs())
    entry = suite.entries[0]
    changed = replace(suite, entries=(replace(entry, tries=entry.tries[::-1]), suite.entries[1]))
    assert [runner.done(job) for job in Runner(changed, OPTIONS, store).jobs()] == [False, True]
    assert "changed" in table(changed, store).lines[0].state
    longer = declare("toy", replace(OPTIONS, budget_steps=31))
    assert not any(Runner(longer, OPTIONS, store).done(job) for job in longer.jobs())


@pytest.mark.parametrize("name", list(SUITES))
def test_suites_are_fair(name: str) -> None:
    suite = declare(name, Options())
    assert refusals(suite) == {}
    assert len({len(entry.tries) for entry in suite.entries}) == 1
    assert len({entry.config.run.steps for entry in suite.entries}) == 1
    for entry in suite.entries:
        for setting in entry.tries:
            entry.config.method.check_sampler(setting.sampler)


def unequal(suite: Suite, **changes: Any) -> dict[str, str]:
    first = suite.entries[0]
    return refusals(replace(suite, entries=(replace(first, **changes), *suite.entries[1:])))


def test_what_is_not_alike_is_refused() -> None:
    suite = declare("sudoku", Options(precision="bfloat16"))
    first = suite.entries[0]
    config, architecture = first.config, first.config.architecture
    wider = replace(config, architecture=replace(architecture, width=104))
    assert "parameters" in unequal(suite, config=wider, differs={"architecture.width": "because"})[first.name]
    assert "tries" in unequal(suite, tries=first.tries[:-1])[first.name]
    for run in (
        replace(config.run, batch_size=32),
        replace(config.run, steps=config.run.steps + 1),
        replace(config.run, seed=7),
        replace(config.run, precision="float32"),
        replace(config.run, optimizer=replace(config.run.optimizer, learning_rate=1e-3)),
    ):
        assert first.name in unequal(suite, config=replace(config, run=run))
    other_order: Any = replace(config.task, seed=1)  # type: ignore[type-var]
    assert "task.seed" in unequal(suite, config=replace(config, task=other_order))[first.name]
    capped = replace(config, architecture=replace(architecture, soft_cap=30.0))
    assert "architecture.soft_cap" in unequal(suite, config=capped)[first.name]
    assert unequal(suite, config=capped, differs={"architecture.soft_cap": "as published"}) == {}


def test_refused_rows_are_not_trained(tmp_path: Path) -> None:
    suite = declare("toy", OPTIONS)
    third = replace(suite.entries[1], name="third")
    odd = replace(suite.entries[0], tries=suite.entries[0].tries[:3])
    runner = Runner(
        replace(suite, entries=(odd, suite.entries[1], third)), OPTIONS, Store.at(tmp_path / "toy")
    )
    assert set(runner.refused) == {"mdlm"}
    assert [entry.name for job in runner.jobs() for entry in job.entries] == ["simplax", "third"]


@dataclass(frozen=True)
class Newcomer(MDLM):
    facts: ClassVar[Facts] = Facts("Newcomer", "tokens", "ancestral", "nobody 2026")


def test_a_new_method_is_a_row_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "newcomer", Newcomer)
    for name in ("sudoku", "sudoku4"):
        suite = declare(name, Options())
        assert "newcomer" in {entry.name for entry in suite.entries}
        assert refusals(suite) == {}


def test_rows_with_the_same_run_share_its_weights() -> None:
    suite = declare("sudoku-ladder", Options(precision="bfloat16"))
    shared = {job.name: [entry.name for entry in job.entries] for job in suite.jobs()}
    assert shared["training-eta-seed0"] == ["training-eta", "sampling-eta", "temperature"]
    main_table = {job.key for job in declare("sudoku", Options(precision="bfloat16")).jobs()}
    assert {job.key for job in suite.jobs() if job.name in ("udlm-seed0", "duo-seed0")} <= main_table


def test_seeds_change_data_order_weights_and_noise_alike() -> None:
    suite = declare("toy", replace(OPTIONS, seeds=(0, 3)))
    jobs = suite.jobs()
    assert len(jobs) == 4 and len({job.key for job in jobs}) == 4
    for job in jobs:
        task: Any = job.config.task
        assert (task.seed, job.config.run.seed) == (job.seed, 1 + job.seed)


def test_ar_has_the_parameters_of_the_others() -> None:
    suite = declare("sudoku", Options())
    sizes = {entry.name: parameters(entry.config) for entry in suite.entries}
    assert abs(sizes["ar"] / sizes["udlm"] - 1) < 0.02
    ar = next(entry for entry in suite.entries if entry.name == "ar")
    assert any("prefix" in text for text in ar.differs.values())


def test_points_that_need_a_file_wait_for_it() -> None:
    suite = declare("sudoku", Options())
    lacking = {p.key for p in suite.benchmark.points() if suite.benchmark.missing(p, Surroundings())}
    assert lacking == {"20", "17"}


def test_a_last_call_that_decides_is_one_of_the_calls() -> None:
    suite = declare("sudoku-diagnostics", Options())
    entry = next(entry for entry in suite.entries if entry.name == "posterior-argmax")
    setting = entry.tries[0]
    assert getattr(setting.sampler, "last", None) == "posterior_argmax"
    task: Any = replace(entry.config.task, size=4, augment=False)  # type: ignore[type-var]
    small = replace(entry.config.architecture, width=16, depth=1, heads=2, relations="sudoku4")
    config = replace(entry.config, task=task, architecture=small)
    model = with_setting(Model(build(config).eval(), config), setting, 5)
    assert model.sample(2, seeds=0).nfe == 5
