"""`simplax suite run NAME`, `simplax suite show NAME` and `simplax suite list`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli import entry, help_text
from simplax.cli.output import check_targets, emit, say, table
from simplax.cli.parsing import Device, Json, run
from simplax.errors import UserError, nearest

if TYPE_CHECKING:
    from simplax.suites.declared import Options
    from simplax.suites.runner import Runner

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("simplax.cli.verbs.suite", "the suites there are"),
    "run": (
        "simplax.cli.verbs.suite",
        "train and measure what is missing; several processes may do it together",
    ),
    "show": ("simplax.cli.verbs.suite", "the table of what was measured"),
}
Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="one of `simplax suite list`")]
Out = Annotated[
    Path | None,
    tyro.conf.arg(help="directory of results and exported models; results/suites/NAME if not given"),
]


def main(arguments: list[str]) -> Any:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text("simplax suite", "Tables of methods that are trained and measured alike.", COMMANDS))
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in COMMANDS:
        raise UserError(f"there is no command {name!r}{nearest(name, list(COMMANDS))}")
    return run(entry(COMMANDS[name][0], f"{name}_"), rest, f"simplax suite {name}")


def list_(*, json: Json = False) -> None:
    """The suites, with the number of their rows."""
    from simplax.suites.catalogue import SUITES
    from simplax.suites.declared import Options

    rows = {
        name: {"rows": [row.name for row in one.build(Options()).entries], "about": one.about}
        for name, one in SUITES.items()
    }
    shown = [[name, str(len(row["rows"])), str(row["about"])] for name, row in rows.items()]
    emit(json, rows, lambda: table(["suite", "rows", ""], shown))


def run_(
    name: Name,
    /,
    *,
    budget_steps: Annotated[
        int | None,
        tyro.conf.arg(metavar="N", help="optimizer steps of every training, instead of the suite's"),
    ] = None,
    seeds: Annotated[
        tuple[int, ...] | None, tyro.conf.arg(help="train every row once for each, instead of the suite's")
    ] = None,
    num: Annotated[
        int | None, tyro.conf.arg(help="size of every evaluation set, instead of the suite's")
    ] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        tyro.conf.arg(help="of training and evaluation; auto: bfloat16 where the processor has units for it"),
    ] = "auto",
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW", help="only these rows")] = (),
    puzzles: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="17-clue puzzles, for 17 and 20 clues")
    ] = None,
    out: Out = None,
    runs: Annotated[
        Path | None,
        tyro.conf.arg(help="directory of the trainings, which suites share; OUT/../runs if not given"),
    ] = None,
    plan: Annotated[bool, tyro.conf.arg(help="say what it would cost, and stop")] = False,
    device: Device = "auto",
    json: Json = False,
) -> int:
    """Train and measure all rows of a suite that are not done, then print its table.

    Running the same command again resumes it, also while it runs elsewhere: every job is claimed by one process. What
    is done is known by a hash of all settings and of the weights. A row that fails is shown, and the rest goes on; the
    exit status is then 1.
    """
    from simplax.suites.benchmark import Surroundings
    from simplax.suites.catalogue import declare
    from simplax.suites.runner import Runner
    from simplax.suites.store import Store
    from simplax.suites.table import table as table_of
    from simplax.suites.table import to_json
    from simplax.suites.terminal import terminal

    if puzzles is not None and not puzzles.is_file():
        raise UserError(f"{puzzles} is not a file of puzzles: name one with --puzzles.")
    place = _place(name, out)
    options = _options(place, budget_steps, seeds, num, precision)
    suite = declare(name, options)
    runner = Runner(suite, options, Store.at(place, runs), Surroundings(puzzles), device, only)
    failures = _do(runner, plan)
    if plan:
        return 0
    found = table_of(suite, runner.store)
    emit(
        json,
        {"suite": name, "out": str(place), "failures": failures, **to_json(found)},
        lambda: terminal(found),
    )
    return 1 if failures else 0


def show_(
    name: Name,
    /,
    *,
    out: Out = None,
    format: Annotated[
        Literal["terminal", "markdown", "html", "latex"], tyro.conf.arg(help="how the table is printed")
    ] = "terminal",
    html: Annotated[
        Path | None, tyro.conf.arg(help="also write a page that goes through the columns")
    ] = None,
    json: Json = False,
) -> None:
    """The table of a suite: best values bold, second ones underlined, intervals, footnotes where settings differ."""
    from simplax.suites.catalogue import declare
    from simplax.suites.declared import Options
    from simplax.suites.formats import FORMATS, page_run
    from simplax.suites.store import Store, stored_options
    from simplax.suites.table import table as table_of
    from simplax.suites.table import to_json

    declare(name, Options())  # an unknown name first
    check_targets(html)
    place = _place(name, out)
    stored = stored_options(place)
    if stored is None or stored[0] != name:
        raise UserError(f"{place} holds no results of {name}: run `simplax suite run {name}`, or name --out.")
    found = table_of(declare(name, stored[1]), Store.at(place))
    if html is not None:
        from simplax.viz.player import write_player

        write_player(html, f"Suite {name}", [page_run(found)])
        say(f"the page is in {html}")
    data = {"suite": name, **to_json(found)}
    text = FORMATS[format](found)
    if isinstance(text, str) and not json:
        print(text)
        return
    emit(json, data, lambda: text)


def _place(name: str, out: Path | None) -> Path:
    return Path("results") / "suites" / name if out is None else out


def _options(
    place: Path, budget_steps: int | None, seeds: tuple[int, ...] | None, num: int | None, precision: str
) -> Options:
    """What is not said is as it was when the directory was first used, or the suite's own."""
    from simplax.suites.declared import Options
    from simplax.suites.identity import own_precision
    from simplax.suites.store import stored_options

    stored = stored_options(place)
    before = Options(precision=own_precision()) if stored is None else stored[1]
    return Options(
        before.budget_steps if budget_steps is None else budget_steps,
        before.seeds if seeds is None else seeds,
        before.num if num is None else num,
        before.precision if precision == "auto" else precision,
    )


def _do(runner: Runner, plan: bool) -> dict[str, str]:
    """Say what it costs, then do it; what failed, by row."""
    from simplax.cli.suite_progress import Watching
    from simplax.suites.pace import Pace

    pace = Pace(runner.plan())
    with Watching(runner, pace) as watching:
        watching.announce()
        if plan:
            return {}
        runner.watch, runner.ended, runner.waiting = watching.watch, watching.ended, watching.waiting
        runner.say = say
        runner.run(pace)
    for row, reason in {**runner.refused, **watching.failures}.items():
        say(f"{row}: {reason}")
    return {**runner.refused, **watching.failures}
