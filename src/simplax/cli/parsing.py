"""Arguments to typed function calls by tyro, with every mistake reported in one sentence."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import operator
import os
import re
import shutil
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro

from simplax.errors import UserError, nearest

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

_METAVARS: dict[Any, str] = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


class HasSettings(typing.Protocol):
    """The value of an option `--NAME` whose settings are typed apart from it, as `--NAME.SETTING VALUE`."""

    def with_settings(self, settings: list[tuple[str, str]], others: Mapping[str, Any]) -> Any:
        """The value with these settings; `others` are all options of the command."""


def run(function: Callable[..., Any], arguments: list[str], prog: str) -> Any:
    """Read `arguments` as those of `function` and call it."""
    parameters = inspect.signature(function).parameters
    settings: dict[str, list[tuple[str, str]]] = {}
    for name, parameter in parameters.items():
        if hasattr(parameter.default, "with_settings"):
            settings[name], arguments = split_settings(
                arguments, operator.methodcaller("startswith", f"{name}.")
            )
    call, unknown = read(function, arguments, prog)
    refuse(unknown, [f"--{name}" for name in parameters], prog)
    for name, pairs in settings.items():
        value: HasSettings = call.keywords[name]
        short = [(flag.removeprefix(f"{name}."), text) for flag, text in pairs]
        call.keywords[name] = value.with_settings(short, call.keywords)
    return call()


def split_settings(
    words: list[str], belongs: Callable[[str], bool]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Settings among the arguments, `--NAME VALUE` or `--NAME=VALUE` with a name that `belongs`, and all others."""
    settings, others, rest = [], [], iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if not (word.startswith("--") and belongs(name)):
            others.append(word)
            continue
        text = value if equals else next(rest, "--")
        if not equals and text.startswith("--"):
            raise UserError(f"--{name} needs a value.")
        settings.append((name, text))
    return settings, others


def read(
    function: Callable[..., Any], arguments: list[str], prog: str, **groups: Any
) -> tuple[functools.partial[Any], list[str]]:
    """The call of `function` that `arguments` describe, not yet made, and the arguments it has no place for.

    `groups` are dataclass instances for parameters of `function`, whose fields become options: for options that are
    known only when the program runs.
    """

    def deferred(*args: Any, **kwargs: Any) -> functools.partial[Any]:
        return functools.partial(function, *args, **kwargs)

    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    parameters = []
    for name, parameter in signature.parameters.items():
        annotation = _without_empty_default(hints[name], parameter.default)
        if name in groups:
            annotation = Annotated[type(groups[name]), tyro.conf.arg(name="")]
            parameter = parameter.replace(default=groups[name])
        parameters.append(parameter.replace(annotation=annotation))
    deferred.__doc__ = function.__doc__
    deferred.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    deferred.__signature__ = signature.replace(parameters=parameters, return_annotation=Any)  # type: ignore[attr-defined]
    complaint = io.StringIO()
    try:
        with (
            contextlib.redirect_stderr(complaint),
            contextlib.redirect_stdout(_Wrapped(sys.stdout)),
            _heeding_no_color(),
        ):
            call, unknown = tyro.cli(
                deferred,
                args=arguments,
                prog=prog,
                return_unknown_args=True,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
            )
            return call, unknown
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
    raise UserError(f"{_sentence(complaint.getvalue())}; see {prog} --help.")


class _Wrapped(io.TextIOBase):
    """The terminal, with paragraphs wrapped: tyro fits its frames into it, but leaves each paragraph on one line."""

    def __init__(self, target: typing.TextIO) -> None:
        self._target = target

    def write(self, text: str) -> int:
        room = max(shutil.get_terminal_size().columns, 40)
        lines = (
            line if len(line) <= room or line[:1] in "╭│╰\x1b " else textwrap.fill(line, room)
            for line in text.split("\n")
        )
        self._target.write("\n".join(lines))
        return len(text)

    def flush(self) -> None:
        self._target.flush()

    def isatty(self) -> bool:
        return self._target.isatty()

    def fileno(self) -> int:
        return self._target.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._target.encoding


@contextlib.contextmanager
def _heeding_no_color() -> Iterator[None]:
    """tyro does not read NO_COLOR, but leaves a dumb terminal without colours."""
    terminal = os.environ.get("TERM")
    if terminal is None or not os.environ.get("NO_COLOR"):
        yield
        return
    os.environ["TERM"] = "dumb"
    try:
        yield
    finally:
        os.environ["TERM"] = terminal


def refuse(unknown: list[str], options: list[str], prog: str) -> None:
    """Complain about the first argument that nothing has a place for, with the option it resembles."""
    if not unknown:
        return
    word = next((word for word in unknown if word.startswith("-")), unknown[0]).partition("=")[0]
    kind = "option" if word.startswith("-") else "argument"
    known = [option.replace("_", "-") for option in options]
    raise UserError(f"there is no {kind} {word!r}{nearest(word, known, f'; see {prog} --help.')}")


def _without_empty_default(annotation: Any, default: Any) -> Any:
    """The annotation with a plain name for its value, and no mention of a default that is nothing or off."""
    if not (default is None or default is False):
        return annotation
    kind: Any = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    options = [option for option in get_args(kind) if option is not type(None)]
    metavar = None
    if len(options) == 1:
        inner = get_args(options[0])[0] if get_origin(options[0]) is tuple else options[0]
        metavar = _METAVARS.get(inner)
    plain = Annotated[kind, tyro.conf.arg(metavar=metavar, help_behavior_hint="")]
    metadata = getattr(annotation, "__metadata__", ())
    return functools.reduce(lambda inner, outer: Annotated[inner, outer], metadata, plain)


def _sentence(boxed: str) -> str:
    """The words inside the frame that tyro draws, without its pointers to the help."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", boxed)
    lines = [line.strip("╭╮╰╯│─ \n") if line[:1] != "╭" else "" for line in plain.splitlines()]
    text = " ".join(line for line in lines if line)
    text = re.split(r"For full helptext|Argument helptext", text)[0]
    text = re.sub(r"Missing value for argument '(.+?)'.*", r"\1 needs a value", text)
    text = re.sub(r"Missing from [^:]*: (\S+) (.*?) \(required\).*", r"\1 is missing: give \2", text)
    return re.sub(r"\s+", " ", text).strip(" .:") or "the arguments were not understood"
