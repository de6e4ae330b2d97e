"""Whole runs by name. A new family is one file, imported here."""

from __future__ import annotations

from simplax.recipes import molecules as _molecules  # noqa: F401  importing registers
from simplax.recipes import sudoku as _sudoku  # noqa: F401
from simplax.recipes import text as _text  # noqa: F401
from simplax.recipes import toy as _toy  # noqa: F401
from simplax.recipes.registry import FAMILIES as FAMILIES
from simplax.recipes.registry import RECIPES as RECIPES
from simplax.recipes.registry import Recipe as Recipe
from simplax.recipes.registry import get as get
from simplax.recipes.registry import recipe as recipe
from simplax.recipes.registry import smoke as smoke
