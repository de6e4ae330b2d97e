"""A frontier does everything once: stored work is not repeated, changed work is, and no comparison is unfair."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simplax.cli import main
from simplax.data.text import Prepared
from simplax.errors import UserError
from simplax.evaluate.frontier import Entrant, Runner, Store, Yardstick
from simplax.evaluate.frontier.entrants import check, draw, jobs, labels
from simplax.evaluate.frontier.pace import Event
from simplax.evaluate.frontier.protocol import choose
from simplax.evaluate.frontier.runner import pending_cost
from simplax.evaluate.frontier.store import Drawn, _silent, code, digest
from simplax.pretrained.model import Model
from text_study import Counts, corpus, model

PROTOCOL = choose("mini", [0.8, 1.0], [2, 3], 8)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def udlm(prepared: Prepared) -> Model:
    return model(prepared, "udlm")


def nothing() -> Model:
    raise AssertionError("a model was loaded although nothing had to be drawn")


def run_frontier(
    prepared: Prepared,
    udlm: Model,
    folder: Path,
    load: Callable[[], Model] | None = None,
    watch: Callable[[Event], None] = lambda event: None,
) -> tuple[list[dict[str, Any]], Counts]:
    scorer = Counts()
    entrant = Entrant(load or (lambda: udlm), jobs(udlm, "udlm", PROTOCOL, seed=5))
    yardstick = Yardstick(prepared, scorer, PROTOCOL.num, directory=folder / "human")
    return Runner([entrant], yardstick, Store(folder), watch, batch_size=3).run(), scorer


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_a_finished_sweep_is_read_and_not_repeated(prepared: Prepared, udlm: Model, tmp_path: Path) -> None:
    rows, scorer = run_frontier(prepared, udlm, tmp_path)
    assert [row["kind"] for row in rows] == ["data"] + ["control"] * 8 + ["model"] * 4
    assert [(r["num_steps"], r["temperature"]) for r in rows[-4:]] == [(2, 0.8), (2, 1.0), (3, 0.8), (3, 1.0)]
    assert [row["nfe"] for row in rows[-4:]] == [2, 2, 3, 3]
    assert scorer.texts == 32 + 12 * 8
    again, scorer = run_frontier(prepared, udlm, tmp_path, nothing)
    assert again == rows and scorer.texts == 0
    # a point that is lost or damaged is measured again on the kept samples
    (tmp_path / "points" / f"{rows[-1]['key'][:24]}.json").unlink()
    (tmp_path / "points" / f"{rows[-2]['key'][:24]}.json").write_text("{")
    again, scorer = run_frontier(prepared, udlm, tmp_path, nothing)
    assert plain(again) == plain(rows) and scorer.texts == 16


def test_an_interrupted_sweep_continues_to_the_same_rows(
    prepared: Prepared, udlm: Model, tmp_path: Path
) -> None:
    whole, _ = run_frontier(prepared, udlm, tmp_path / "whole")

    def interrupt(event: Event) -> None:
        if event.what.startswith("udlm, 3 steps") and event.work == "scoring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_frontier(prepared, udlm, tmp_path / "parts", watch=interrupt)
    rows, scorer = run_frontier(prepared, udlm, tmp_path / "parts")
    assert plain(rows) == plain(whole)
    assert scorer.texts == 16


def test_the_cost_before_it_starts_is_that_of_what_is_missing(
    prepared: Prepared, udlm: Model, tmp_path: Path
) -> None:
    """Calls are counted as the network is called: 3 batches for each of 2 temperatures, by 2 steps and by 3."""
    entrants = [Entrant(lambda: udlm, jobs(udlm, "udlm", PROTOCOL, seed=5))]
    expected = pending_cost(entrants, Store(tmp_path), 3)
    calls = [0]
    hook = udlm.denoiser.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))
    try:
        run_frontier(prepared, udlm, tmp_path)
    finally:
        hook.remove()
    assert expected.calls == calls[0] == 3 * 2 * (2 + 3)
    assert expected.tokens == 8 * prepared.length * 2 * (2 + 3)
    done = [Entrant(nothing, jobs(udlm, "udlm", PROTOCOL, seed=5))]
    assert pending_cost(done, Store(tmp_path), 3).calls == 0
    longer = [Entrant(lambda: udlm, jobs(udlm, "udlm", choose("mini", [0.8, 1.0], [2, 3, 4], 8), seed=5))]
    assert pending_cost(longer, Store(tmp_path), 3).calls == 3 * 2 * 4


def test_events_count_up_and_foresee_the_end(prepared: Prepared, udlm: Model, tmp_path: Path) -> None:
    events: list[Event] = []
    run_frontier(prepared, udlm, tmp_path, watch=events.append)
    finished = [event for event in events if event.record is not None]
    assert [event.finished for event in finished] == list(range(1, 14)) and finished[-1].total == 13
    assert finished[-1].left == 0 and not finished[-1].kept
    inside = [event for event in events if event.what == "udlm, 2 steps, T 0.8" and event.work == "sampling"]
    assert [event.done for event in inside] == [1, 3, 4, 6, 7, 8]
    assert all(event.rate is None or event.rate > 0 for event in inside)


def test_samples_do_not_depend_on_their_batch(udlm: Model) -> None:
    options: dict[str, Any] = {"num": 7, "num_steps": 2, "temperature": 1.0, "top_p": 1.0, "seed": 3}
    one, many = draw(udlm, batch_size=2, **options), draw(udlm, batch_size=7, **options)
    assert np.array_equal(one.ids, many.ids) and one.nfe == many.nfe == 2


def _looping(plain: Model) -> Model:
    """The same weights, whose calls go through their blocks twice."""
    sampling = replace(plain.config.sampling, loops=2)
    return replace(plain, config=replace(plain.config, sampling=sampling))


def test_every_setting_changes_the_key(prepared: Prepared, udlm: Model) -> None:
    base = {digest(job.settings) for job in jobs(udlm, "a", PROTOCOL, seed=5)}
    assert len(base) == 4
    renamed = {digest(job.settings) for job in jobs(udlm, "b", PROTOCOL, seed=5)}
    assert renamed == base  # what a model is called decides nothing
    others = [
        jobs(udlm, "a", PROTOCOL, seed=6),
        jobs(udlm, "a", PROTOCOL, seed=5, top_p=0.9),
        jobs(udlm, "a", choose("mini", [0.8, 1.0], [2, 3], 9), seed=5),
        jobs(Model(udlm.denoiser, udlm.config, {"sha256": "1"}), "a", PROTOCOL, seed=5),
        jobs(model(prepared, "simplax"), "a", PROTOCOL, seed=5),
        jobs(_looping(udlm), "a", PROTOCOL, seed=5),
    ]
    for other in others:
        assert base.isdisjoint(digest(job.settings) for job in other)
    first, second = Yardstick(prepared, Counts(), 8), Yardstick(prepared, Counts(), 8, seed=1)
    assert digest(first.identity) != digest(second.identity)


def test_left_to_right_has_its_own_number_of_calls(prepared: Prepared) -> None:
    left_to_right = model(prepared, "ar")
    found = jobs(left_to_right, "ar", PROTOCOL, seed=0)
    assert {job.num_steps for job in found} == {prepared.length}
    drawn = draw(left_to_right, num=2, num_steps=prepared.length, temperature=1.0, top_p=1.0, seed=0)
    assert drawn.nfe == prepared.length


def test_code_is_hashed_without_words_about_it() -> None:
    import ast

    def shape(text: str) -> str:
        return ast.dump(_silent(ast.parse(text)))

    assert shape('def f(x):\n    """One."""\n    return x  # why\n') == shape("def f(x):\n    return x\n")
    assert shape("def f(x):\n    return x\n") != shape("def f(x):\n    return -x\n")
    assert code(("times.py",)) != code(("random.py",))


def test_the_store_survives_damage(tmp_path: Path) -> None:
    store, drawn = Store(tmp_path), Drawn(np.array([[1, 70_000]]), 2.5, 3, 1.0)
    assert store.samples("k") is None and store.point("k") is None
    store.keep_samples("k", drawn)
    found = store.samples("k")
    assert (
        found is not None and found.ids.tolist() == [[1, 70_000]] and (found.nfe, found.num_steps) == (2.5, 3)
    )
    (tmp_path / "samples" / "k.npz").write_bytes(b"PK\x03\x04cut")
    assert store.samples("k") is None
    store.keep_point("k", {"columns": {}})
    assert store.point("k") == {"key": "k", "columns": {}}
    (tmp_path / "points" / "k.json").write_text('{"key": "another"}')
    assert store.point("k") is None


def test_names_of_rows() -> None:
    assert labels(["runs/a", "b"]) == ["a", "b"]
    assert labels(["runs/a", "other/a"]) == ["runs/a", "other/a"]
    with pytest.raises(UserError, match="named twice"):
        labels(["runs/a", "runs/a"])


def test_what_does_not_compare_is_refused(prepared: Prepared, udlm: Model, tmp_path: Path) -> None:
    other = corpus(tmp_path, length=20)
    with pytest.raises(UserError, match="name the data it was trained on"):
        check(udlm, other, "udlm")
    with pytest.raises(UserError, match="held-out sequences"):
        Yardstick(prepared, Counts(), 10_000)


def test_weights_that_change_under_way_are_refused(prepared: Prepared, udlm: Model, tmp_path: Path) -> None:
    later = replace(udlm, origin={**udlm.origin, "sha256": "of a later checkpoint"})
    with pytest.raises(UserError, match="changed while the frontier ran"):
        run_frontier(prepared, udlm, tmp_path, load=lambda: later)


@pytest.fixture(scope="module")
def study(prepared: Prepared, udlm: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two exported models, and the folder of their frontier."""
    folder = tmp_path_factory.mktemp("study")
    udlm.save_pretrained(folder / "udlm")
    model(prepared, "ar").save_pretrained(folder / "ar")
    return folder, folder / "frontier"


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr("simplax.evaluate.text.load_scorer", lambda name, device: Counts())
    capsys.readouterr()
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_the_verb_writes_the_whole_study(
    study: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    folder, out = study
    words = ["frontier", str(folder / "udlm"), str(folder / "ar"), "--out", str(out), "--num", "8"]
    words += ["--temperatures", "0.8", "1", "1.3", "--steps", "2", "4"]
    text = run(monkeypatch, capsys, *words)
    for word in ("udlm", "periodic-k*", "NFE 24", "Perplexity under counts", "off by"):
        assert word in text
    found = json.loads(run(monkeypatch, capsys, *words, "--json"))
    stored = json.loads((out / "frontier.json").read_text())
    assert stored["result"] == found["result"]
    assert found["evaluation"] == "frontier" and found["protocol"]["name"] == "mini, changed"
    assert [model["row"] for model in found["models"]] == ["udlm", "ar"]
    assert len(found["models"][0]["sha256"]) == 64 and found["measured_with"]["scorer"]["name"] == "counts"
    assert [(m["row"], m["num_steps"]) for m in found["result"]["matches"]] == [
        ("udlm", 2), ("udlm", 4), ("ar", 24),
    ]  # fmt: skip
    assert len(found["result"]["points"]) == 9 and len(found["result"]["controls"]) == 8
    for name in ("table.md", "texts.md", "frontier.png", "frontier.svg", "frontier.html"):
        assert (out / name).stat().st_size > 0
    assert "| human-half |" in (out / "table.md").read_text()


def test_one_setting_is_measured_beside_data_and_controls(
    study: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words = ["evaluate", str(study[0] / "udlm"), "generative", "--num", "8", "--steps", "2"]
    text = run(monkeypatch, capsys, *words, "--out", str(tmp_path / "a.json"))
    assert "tiled-row" in text and "text-mini-udlm" in text
    found = json.loads(
        run(monkeypatch, capsys, *words, "--temperature", "0.5", "--json", "--out", str(tmp_path / "b.json"))
    )
    record = json.loads((tmp_path / "b.json").read_text())
    assert record["evaluation"] == "generative" and record["temperature"] == 0.5 and record["nfe"] == 2
    assert record["result"]["columns"] == found["columns"] and len(found["controls"]) == 8
    both = [str(tmp_path / name) for name in ("a.json", "b.json")]
    (first, second) = json.loads(run(monkeypatch, capsys, "compare", *both, "--json"))["generative"]
    assert first["differs"] == {} and second["differs"] == {"temperature": {"first": 1.0, "here": 0.5}}


def test_points_are_drawn_with_the_sampler_that_is_named(
    study: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words = [
        "frontier",
        str(study[0] / "udlm"),
        "--num",
        "4",
        "--temperatures",
        "1",
        "--steps",
        "2",
        "--json",
    ]
    words += ["--sampler", "psi", "--sampler.last", "posterior", "--out", str(tmp_path)]
    (point,) = json.loads(run(monkeypatch, capsys, *words))["result"]["points"]
    assert point["nfe"] == 3  # one more than steps, for the end
    stored = json.loads((tmp_path / "points" / f"{point['key'][:24]}.json").read_text())
    assert stored["settings"]["sampler"]["kind"] == "psi"
