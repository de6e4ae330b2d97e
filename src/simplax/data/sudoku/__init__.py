"""Sudoku: the benchmark's puzzles, a solver, token layouts and training batches."""

from __future__ import annotations

from simplax.data.sudoku.augment import Symmetry, augment_puzzles, random_symmetry
from simplax.data.sudoku.boards import check, load_puzzles, parse, parse_many, to_text
from simplax.data.sudoku.few import few_clue_puzzle, few_clues
from simplax.data.sudoku.four import puzzles_4x4, solutions_4x4
from simplax.data.sudoku.generator import generate, generate_range
from simplax.data.sudoku.layouts import LAYOUTS, Cells, Layout, Prefix, decode, encode, make_layout
from simplax.data.sudoku.pools import Pool, development_set, exact_clues, pool
from simplax.data.sudoku.puzzles import PuzzleSet
from simplax.data.sudoku.rated import RatedPuzzles, is_rated, load_rated
from simplax.data.sudoku.seventeen import extend_seventeen
from simplax.data.sudoku.solver import (
    Undecided,
    conflicts,
    count_solutions,
    is_valid,
    only_solution,
    solve,
    valid_boards,
)
from simplax.data.sudoku.source import SudokuSource

__all__ = [
    "LAYOUTS",
    "Cells",
    "Layout",
    "Pool",
    "Prefix",
    "PuzzleSet",
    "RatedPuzzles",
    "SudokuSource",
    "Symmetry",
    "Undecided",
    "augment_puzzles",
    "check",
    "conflicts",
    "count_solutions",
    "decode",
    "development_set",
    "encode",
    "exact_clues",
    "extend_seventeen",
    "few_clue_puzzle",
    "few_clues",
    "generate",
    "generate_range",
    "is_rated",
    "is_valid",
    "load_puzzles",
    "load_rated",
    "make_layout",
    "only_solution",
    "parse",
    "parse_many",
    "pool",
    "puzzles_4x4",
    "random_symmetry",
    "solutions_4x4",
    "solve",
    "to_text",
    "valid_boards",
]
