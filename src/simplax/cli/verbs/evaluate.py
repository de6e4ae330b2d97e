"""`simplax evaluate MODEL NAME`: measurements, each a module with a function of one model."""

from __future__ import annotations

from typing import Any

from simplax.cli import entry, help_text
from simplax.cli.parsing import run
from simplax.errors import UserError, nearest

# name: (module with a function `evaluate(model, ...)`, what it measures); adding one is adding a line
EVALUATIONS: dict[str, tuple[str, str]] = {
    "likelihood": ("simplax.cli.verbs.evaluations.likelihood", "negative log-likelihood: exact, or a bound"),
    "generative": (
        "simplax.cli.verbs.evaluations.generative",
        "perplexity, entropy and repetition of generated text",
    ),
    "molecules": (
        "simplax.cli.verbs.evaluations.molecules",
        "molecules of a model or a file, as MOSES measures them",
    ),
    "revision": (
        "simplax.cli.verbs.evaluations.revision",
        "edits, mistakes made and taken back, step by step",
    ),
    "guidance": (
        "simplax.cli.verbs.evaluations.guidance",
        "molecules drawn with a label at several strengths of guidance",
    ),
    "sudoku": (
        "simplax.cli.verbs.evaluations.sudoku",
        "boards solved, cells right, boards valid, by clue count",
    ),
}


def main(arguments: list[str]) -> Any:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text("simplax evaluate", "Measure a model.", EVALUATIONS, before="MODEL "))
        return 0 if arguments else 2
    model, *rest = arguments
    if not rest or rest[0].startswith("-"):
        raise UserError(f"name what to measure: simplax evaluate MODEL {'|'.join(EVALUATIONS)}.")
    name, *options = rest
    if name not in EVALUATIONS:
        raise UserError(f"there is no evaluation {name!r}{nearest(name, list(EVALUATIONS))}")
    function = entry(EVALUATIONS[name][0], "evaluate")
    if options and options[0] in ("-h", "--help"):
        model = "MODEL"
    return run(function, [model, *options], f"simplax evaluate MODEL {name}")
