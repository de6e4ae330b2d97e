"""The command line: one thin typed function per verb, imported only when its verb is used."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simplax.errors import UserError, nearest

# verb: (module below simplax.cli.verbs, what it does); the module's `main` takes the arguments
VERBS: dict[str, tuple[str, str]] = {
    "train": ("train", "train a recipe, or resume a run"),
    "sample": ("sample", "draw sequences from a model"),
    "infill": ("infill", "fill in the gaps of texts with a model"),
    "evaluate": ("evaluate", "measure a model"),
    "frontier": ("frontier", "perplexity against entropy over temperatures, several models"),
    "suite": ("suite", "train and measure many methods alike, and print the table"),
    "rerun": ("rerun", "repeat one result and say whether it is the same"),
    "compare": ("compare", "print results side by side and mark settings that differ"),
    "solve": ("solve", "fill in Sudoku boards with a model"),
    "serve": ("serve", "serve models over HTTP, with a page to watch them"),
    "sweep": ("sweep", "accuracy against the sampler's concentration"),
    "figure": ("figure", "draw one puzzle as several models fill it in"),
    "import": ("import_", "make a model of MDLM, UDLM or Duo one of ours"),
    "export": ("export", "write a model directory with its sampler settings"),
    "push": ("push", "put a model on the Hugging Face hub, with its card"),
    "demo": ("demo", "train a small Sudoku model from scratch and watch it work"),
    "recipes": ("recipes", "list tasks and methods, or the settings of one recipe"),
    "methods": ("methods", "list the methods"),
    "samplers": ("samplers", "list the samplers, or the settings of one"),
    "data": ("data", "prepare data, or describe what was prepared"),
    "plot": ("plot", "draw the curves of a run"),
    "bench": ("bench", "measure speed and memory against the bare network"),
    "licences": ("licences", "licences of the packages that are used"),
    "doctor": ("doctor", "what is installed, which device, what would be slow"),
    "completion": ("completion", "print a script that completes commands in a shell"),
}
# how `simplax` alone lists them; a verb that is in no group is listed after them
GROUPS: dict[str, str] = {
    "Start here": "demo solve serve doctor",
    "Train": "recipes methods data train plot",
    "Use a model": "sample infill samplers import export push",
    "Measure and compare": "evaluate frontier suite rerun compare sweep figure bench",
}
# verbs whose work is divided among the processes that torchrun starts
TOGETHER = frozenset({"sample", "infill", "solve", "evaluate", "frontier", "sweep"})
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, 1 (the answer is no), 2 (a mistake to put right) or 130 (interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):  # closed by the caller: what would be printed there is dropped
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if not _shares(arguments):
        return _answer(arguments)
    from simplax.io.sharding import together

    with together():
        status = _answer(arguments)
        sys.stdout.flush()  # before anybody leaves: torchrun ends all as soon as one fails
        return status


def _shares(arguments: list[str]) -> bool:
    """Whether the work is divided among processes that torchrun started."""
    words = arguments[1:] if arguments[:1] == ["--"] else arguments
    return os.environ.get("WORLD_SIZE", "1") != "1" and bool(words) and words[0] in TOGETHER


def _answer(arguments: list[str]) -> int:
    try:
        return _status(_dispatch(arguments))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return _complain("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UnicodeDecodeError as error:
        if os.environ.get("SIMPLAX_DEBUG"):
            raise
        return _complain(
            f"the input is not UTF-8 text (byte {error.start}): convert the file, or name another.", 2
        )
    except ValueError as error:  # the library's own checks say what to do in one sentence
        if os.environ.get("SIMPLAX_DEBUG"):
            raise
        return _complain(str(error), 2)
    except OSError as error:
        if os.environ.get("SIMPLAX_DEBUG"):
            raise
        what = f"{error.filename or 'a file'} cannot be used: {error.strerror or error}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _complain(f"{what}{': make room, then give the same command again' if full else ''}.", 2)


def _dispatch(arguments: list[str]) -> Any:
    if arguments[:1] == ["--"]:  # what ends the options of torchrun in `torchrun -m simplax -- evaluate`
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    verb, *rest = arguments
    if verb == "--version":
        from importlib.metadata import version

        print(f"simplax {version('simplax')}")
        return 0
    if verb not in VERBS:
        kind = "option" if verb.startswith("-") else "command"
        raise UserError(f"there is no {kind} {verb!r}{nearest(verb, list(VERBS))}")
    run = entry(f"simplax.cli.verbs.{VERBS[verb][0]}", "main")
    if not _shares(arguments):
        return run(rest)
    from simplax.io.sharding import current

    with current().failing_together():
        return run(rest)


def entry(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def help_text(prog: str, about: str, choices: Mapping[str, tuple[str, str]], before: str = "") -> str:
    """The help of a command that only chooses among others."""
    width = max(map(len, choices))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in choices.items()]
    example = f"{prog} {before}COMMAND --help"
    return "\n".join([f"usage: {prog} {before}COMMAND ...", "", about, "", *lines, "", f"More: {example}"])


def _overview() -> str:
    """All verbs in groups, and what to type first."""
    grouped = {title: verbs.split() for title, verbs in GROUPS.items()}
    rest = [verb for verb in VERBS if not any(verb in verbs for verbs in grouped.values())]
    width = max(map(len, VERBS))
    lines = ["usage: simplax COMMAND ...", "", "Diffusion over categories: train, sample, compare.", ""]
    for title, verbs in {**grouped, "Other": rest}.items():
        if verbs:
            lines += [f"{title}:", *(f"  {verb:<{width}} {VERBS[verb][1]}" for verb in verbs), ""]
    lines += [
        "For instance:",
        "  simplax demo                          train and solve Sudoku, in a minute",
        "  simplax train toy-simplax             train one of `simplax recipes`",
        "  simplax train toy-simplax --help      all settings of the recipe",
        "  simplax sample runs/toy-simplax       draw from the result",
        "",
        "More: simplax COMMAND --help",
    ]
    return "\n".join(lines)


def _status(result: Any) -> int:
    return result if isinstance(result, int) else 0


def _complain(message: str, status: int) -> int:
    sharding = sys.modules.get("simplax.io.sharding")  # not imported: then this process is alone
    if sharding is None or sharding.speaks():
        print(f"simplax: {' '.join(message.split())}", file=sys.stderr)
    return status
