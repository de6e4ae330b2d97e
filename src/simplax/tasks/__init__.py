"""Tasks: what a run is trained on. `TASKS` is the registry: a new task is one file and one line here."""

from __future__ import annotations

from simplax.tasks.base import Task as Task
from simplax.tasks.molecules import MoleculesTask as MoleculesTask
from simplax.tasks.sequences import SequenceTask as SequenceTask
from simplax.tasks.sudoku import SudokuTask as SudokuTask
from simplax.tasks.text import TextTask as TextTask
from simplax.tasks.toy import ToyTask as ToyTask

TASKS: dict[str, type[Task]] = {
    "molecules": MoleculesTask,
    "sequences": SequenceTask,
    "sudoku": SudokuTask,
    "text": TextTask,
    "toy": ToyTask,
}
