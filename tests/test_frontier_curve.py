"""Curves are read where the data is: matches, interpolation, intervals, and the tables made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplax.errors import UserError
from simplax.evaluate.frontier.curve import bootstrap, interpolate, nearest, read
from simplax.evaluate.frontier.matches import matches
from simplax.evaluate.frontier.pace import Pace
from simplax.evaluate.frontier.protocol import PROTOCOLS, choose
from simplax.evaluate.frontier.tables import Table, main_table, matched_table, number
from simplax.evaluate.frontier.texts import excerpt, texts_page
from text_study import data, point


def test_the_papers_protocol() -> None:
    paper = PROTOCOLS["paper"]
    assert paper.temperatures == tuple(round(0.84 + 0.02 * i, 2) for i in range(15))
    assert paper.temperatures[-1] == 1.12 and paper.num == 1024
    assert paper.steps == (8, 16, 32, 64, 128, 256, 512, 1024)
    mini = PROTOCOLS["mini"]
    assert len(mini.temperatures) == 5 and mini.steps == (8, 32, 128) and mini.num == 128


def test_a_changed_protocol_says_so() -> None:
    assert choose("mini").name == "mini"
    changed = choose("mini", temperatures=[1.0, 0.9, 1.0], num=7)
    assert changed.name == "mini, changed" and changed.temperatures == (0.9, 1.0) and changed.num == 7
    for wrong in ({"temperatures": [0.0]}, {"steps": [0]}, {"num": 1}, {"temperatures": []}):
        with pytest.raises(UserError):
            choose("mini", **wrong)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 6), min_size=2, max_size=8), st.floats(-2, 2), st.floats(0, 3), st.floats(-1, 7))
def test_interpolation_is_exact_on_lines_and_never_extrapolates(
    entropies: list[float], slope: float, offset: float, target: float
) -> None:
    found = interpolate(entropies, [offset + slope * h for h in entropies], target)
    if min(entropies) <= target <= max(entropies):
        assert found == pytest.approx(offset + slope * target, abs=1e-9)
    else:
        assert found is None


def test_a_curve_that_folds_back_is_read_nearest_to_the_data() -> None:
    # the data's entropy 2 is crossed twice: the second pair has a point at 1.9
    assert interpolate([1.0, 3.0, 1.9], [0.0, 1.0, 5.0], 2.0) == pytest.approx(5 - 4 * 0.1 / 1.1)


def test_reading_marks_what_should_not_be_trusted() -> None:
    inner = read([4.0, 4.42, 5.0], [1.0, 2.0, 3.0], 4.4)
    assert inner.place == 1 and inner.notes == () and inner.gap == pytest.approx(0.02)
    assert inner.perplexity == pytest.approx(math.exp(1 + 0.4 / 0.42))
    far = read([4.0, 4.5, 5.0], [1.0, 2.0, 3.0], 4.4)
    assert far.notes == ("entropy off by +0.10",)
    edge = read([4.41, 4.6, 5.0], [1.0, 2.0, 3.0], 4.4)
    assert edge.notes == ("edge of the sweep",) and edge.perplexity is None and edge.interval is None
    assert nearest([1.0, 3.0], 2.0) == 0


def test_bootstrap_is_seeded_pools_tokens_and_covers() -> None:
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(100):
        tokens = random.integers(5, 50, 64).astype(float)
        nll = tokens * random.normal(3.0, 0.5, 64)
        sample = {"nll": nll.tolist(), "tokens": tokens.tolist(), "entropy": random.normal(4, 1, 64).tolist()}
        found = bootstrap(sample, draws=200).intervals()
        hits += found["perplexity"][0] <= math.exp(3.0) <= found["perplexity"][1]
    assert hits >= 85  # 95 are expected; fewer than 85 happen once in ten thousand
    assert bootstrap(sample, draws=50, seed=1).intervals() == bootstrap(sample, draws=50, seed=1).intervals()
    assert bootstrap(sample, draws=50, seed=1).intervals() != bootstrap(sample, draws=50, seed=2).intervals()
    alike = {"nll": [20.0] * 5, "tokens": [10.0] * 5, "entropy": [4.0] * 5}
    assert bootstrap(alike).intervals()["perplexity"] == pytest.approx([math.exp(2)] * 2)


def frontier_rows() -> list[dict[str, object]]:
    models = [
        point(t, h, p, steps, row=name, flags=flags)
        for name, steps, values, flags in (
            ("a", 8, [(4.0, 20.0), (4.4, 40.0), (4.8, 80.0)], []),
            ("b", 8, [(4.1, 15.0), (4.38, 30.0), (4.9, 90.0)], ["rep_2"]),
            ("c", 8, [(4.1, 2.0), (4.39, 5.0), (4.9, 9.0)], ["perplexity below data"]),
            ("a", 32, [(4.5, 20.0), (4.7, 40.0), (4.8, 80.0)], []),
        )
        for t, (h, p) in zip((1.1, 0.9, 1.0), (values[2], values[0], values[1]))
    ]
    control = {**point(1.0, 4.4, 6.0, row="periodic-k*", flags=["rep_2"]), "kind": "control"}
    del control["temperature"]
    return [data(4.4, 10.0), control, *models]


def test_matches_come_in_order_of_temperature_with_the_interpolated_value() -> None:
    found = {(m["row"], m["num_steps"]): m for m in matches(frontier_rows())}
    first = found["a", 8]
    assert first["temperature"] == 1.0 and first["entropy_gap"] == 0 and first["notes"] == []
    assert first["interpolated"]["perplexity"] == pytest.approx(40)
    assert first["log_ppl_gap"] == pytest.approx(math.log(4))
    assert found["b", 8]["interpolated"]["perplexity"] == pytest.approx(30 * 3 ** (0.02 / 0.52))
    off = found["a", 32]
    assert off["notes"] == ["entropy off by +0.10", "edge of the sweep"] and off["interpolated"] is None


def test_the_main_table_never_praises_what_does_not_compare() -> None:
    rows = frontier_rows()
    found = matches(rows)
    table = main_table(rows, found)
    assert table.columns == ["PPL (entropy)", "no network", "NFE 8", "NFE 32"]
    cells = {line[0]: line[1:] for line in table.rows}
    assert cells["a"] == ["", "40.0 (4.40)", "20.0 (4.50)†‡"]
    assert cells["b"] == ["", "30.0 (4.38)§", ""]
    assert cells["c"] == ["", "5.0 (4.39)!", ""]
    assert cells["periodic-k*"] == ["6.0 (4.40)§", "", ""] and cells["data"] == ["10.0 (4.40)", "", ""]
    assert table.strong == {(0, 2)}  # b is lower, but repeats itself; c is below the data
    assert "**40.0 (4.40)**" in table.markdown()
    assert "not reached" in matched_table(found).rows[-1]


def test_an_interpolated_perplexity_below_the_data_is_flagged_where_no_point_is_near() -> None:
    rows = [data(4.4, 10.0), point(0.9, 4.2, 5.0), point(1.1, 4.6, 6.0)]
    (found,) = matches(rows)
    assert found["flags"] == ["perplexity below data"]
    assert found["interpolated"]["perplexity"] == pytest.approx(math.sqrt(30))


def test_network_calls_that_differ_from_the_steps_are_told() -> None:
    rows = [data(4.4, 10.0), point(1.0, 4.4, 20.0, 8, nfe=9.0)]
    assert main_table(rows, matches(rows)).rows[0][2] == "20.0 (4.40)‡ [9 calls]"


def test_markdown_holds_any_text_on_its_line() -> None:
    text = Table(["a"], [["x | y\n<|endoftext|> *z*"]]).markdown()
    assert text.splitlines()[2] == r"| x \| y &lt;\|endoftext\|> \*z\* |"


def test_texts_are_the_first_and_are_cut_after_a_word() -> None:
    assert excerpt("one two three", 8) == "one two [...]" and excerpt("one  two", 8) == "one two"
    assert excerpt("x" * 20, 8) == "x" * 8 + " [...]"
    rows = [data(4.4, 10.0), point(1.0, 4.4, 20.0, text="long " * 200)]
    page = texts_page(rows, matches(rows))
    assert "## 8 steps" in page and "long [...]" in page and "human text" in page


def test_numbers_fit_tables() -> None:
    assert [number(x) for x in (None, math.nan, 0.0, 12.345, 1234.5, 0.01234, 2e7, 1e-9)] == [
        "n/a", "n/a", "0", "12.35", "1,234", "0.0123", "2e+07", "1e-09",
    ]  # fmt: skip


def test_the_time_left_comes_from_both_kinds_of_work() -> None:
    now = [0.0]
    pace = Pace({"sampling": 100, "scoring": 20}, lambda: now[0])
    assert pace.left() is None
    now[0] = 5.0
    pace.add("sampling", 10)  # half a second each
    assert pace.left() is None
    now[0] = 9.0
    pace.add("scoring", 2)  # two seconds each
    assert pace.left() == pytest.approx(90 * 0.5 + 18 * 2)
    pace.skip("sampling", 90)
    assert pace.left() == pytest.approx(36)
