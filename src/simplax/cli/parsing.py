"""Arguments to typed function calls by tyro, with every mistake told in one sentence."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import tyro

from simplax.errors import UserError

Json = Annotated[bool, tyro.conf.arg(help="print machine-readable JSON on stdout")]
Device = Annotated[str, tyro.conf.arg(metavar="DEVICE", help="auto, cpu, cuda or cuda:N")]
Weights = Annotated[
    Literal["auto", "ema", "raw"],
    tyro.conf.arg(help="averaged or last weights; auto: averaged ones of a run, those an export has"),
]
ModelName = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(metavar="MODEL", help="a run directory, an exported directory or a bundled name"),
]

_SETTING = re.compile(r"--([a-z][\w-]*(?:\.[\w-]+)+)(?:=(.*))?", re.DOTALL)


def run(function: Callable[..., Any], arguments: list[str], prog: str) -> Any:
    """Read `arguments` as those of `function` and call it."""
    return read(function, arguments, prog)()


def read(function: Callable[..., Any], arguments: list[str], prog: str) -> Callable[..., Any]:
    """The call that `arguments` ask for; it is made outside, so that only parsing is watched."""

    @functools.wraps(function)
    def deferred(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        return functools.partial(function, *args, **kwargs)

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            call: Callable[..., Any] = tyro.cli(
                deferred, args=arguments, prog=prog, config=(tyro.conf.FlagCreatePairsOff,)
            )
            return call
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
    raise UserError(f"{_sentence(complaint.getvalue())}; see {prog} --help.")


def _sentence(boxed: str) -> str:
    """The words inside the frame that tyro draws, without its pointers to the help."""
    lines = [line.strip("╭╮╰╯│─ \n") if line[:1] != "╭" else "" for line in boxed.splitlines()]
    text = " ".join(line for line in lines if line)
    text = re.split(r"For full helptext|Argument helptext", text)[0]
    return re.sub(r"\s+", " ", text).strip(" .:") or "the arguments were not understood"


def split_settings(arguments: list[str], sections: frozenset[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Take `--section.name VALUE` (and `--section VALUE`) out of the arguments: the rest, and the pairs."""
    rest: list[str] = []
    settings: list[tuple[str, str]] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        found = _SETTING.fullmatch(word) or re.fullmatch(rf"--({'|'.join(sorted(sections))})(?:=(.*))?", word)
        if found is None:
            rest.append(word)
            continue
        name, value = found.group(1), found.group(2)
        if value is None:
            if not queue or _SETTING.fullmatch(queue[0]):
                raise UserError(f"--{name} needs a value.")
            value = queue.pop(0)
        settings.append((name, value))
    return rest, settings
