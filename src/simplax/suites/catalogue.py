"""Suites and benchmarks by name: adding one is adding a line."""

from __future__ import annotations

from simplax.errors import UserError, nearest
from simplax.suites import sudoku_suites
from simplax.suites.benchmark import Benchmark
from simplax.suites.declared import Declaration, Options, Suite
from simplax.suites.molecules_suite import MoleculesBenchmark, molecules
from simplax.suites.sudoku_benchmark import SudokuBenchmark
from simplax.suites.sudoku_diagnostics import diagnostics
from simplax.suites.text_suite import TextBenchmark, redraws, text

BENCHMARKS: dict[str, type[Benchmark]] = {
    "sudoku": SudokuBenchmark,
    "molecules": MoleculesBenchmark,
    "text": TextBenchmark,
}

SUITES: dict[str, Declaration] = {
    "toy": Declaration("two methods on 4x4 Sudoku, in seconds", sudoku_suites.toy),
    "sudoku4": Declaration("every method on 4x4 Sudoku, in minutes", sudoku_suites.sudoku4),
    "sudoku": Declaration("every method on 9x9 Sudoku: the paper's second table", sudoku_suites.sudoku),
    "molecules": Declaration("every method on QM9, against network calls", molecules),
    "text": Declaration("every method on messages of US presidents, at the data's entropy", text),
    "sudoku-ladder": Declaration("from UDLM to Simplax, one change at a time", sudoku_suites.ladder),
    "sudoku-diagnostics": Declaration("what Simplax's own choices do, one at a time", diagnostics),
    "text-redraw": Declaration("eta and other redraws on text, on the weights of the suite text", redraws),
    "sudoku-axes": Declaration("hidden carry and three ways to redraw, apart", sudoku_suites.axes),
}


def declare(name: str, options: Options) -> Suite:
    """The suite of that name."""
    if name not in SUITES:
        raise UserError(f"there is no suite {name!r}{nearest(name, list(SUITES))}")
    return SUITES[name].build(options)
