"""`simplax frontier MODEL...`: perplexity against entropy, over temperatures and network calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli.output import announce, emit, first_process, say, table
from simplax.cli.parsing import Device, Json, Weights, run
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    Eta,
    SamplerChoice,
    SamplerName,
    Seed,
    read_eta,
)
from simplax.errors import UserError
from simplax.io.progress import duration

if TYPE_CHECKING:
    from simplax.data.text import Prepared
    from simplax.evaluate.frontier.pace import Event
    from simplax.evaluate.frontier.protocol import Protocol
    from simplax.evaluate.frontier.runner import Entrant
    from simplax.evaluate.frontier.tables import Table
    from simplax.pretrained.model import Model

ScorerName = Annotated[
    str,
    tyro.conf.arg(
        metavar="NAME",
        help="smollm2, gpt2-large, gpt2-xl, llama-2-7b, another causal model of the hub, or a folder with one",
    ),
]
Data = Annotated[
    Path | None,
    tyro.conf.arg(metavar="PREPARED", help="directory with the human text; what the model was trained on"),
]
TopP = Annotated[float | None, tyro.conf.arg(help="nucleus of each prediction")]


def main(arguments: list[str]) -> None:
    run(frontier, arguments, "simplax frontier")


def frontier(
    models: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="MODEL", help="runs, exported models or bundled names; a curve each"),
    ],
    /,
    *,
    protocol: Annotated[
        Literal["mini", "paper"],
        tyro.conf.arg(
            help="mini: 5 temperatures, 8, 32 and 128 steps, 128 samples; paper: 15, 8 to 1,024, 1,024"
        ),
    ] = "mini",
    temperatures: Annotated[
        tuple[float, ...] | None, tyro.conf.arg(metavar="T", help="instead of the protocol's")
    ] = None,
    steps: Annotated[
        tuple[int, ...] | None, tyro.conf.arg(metavar="N", help="network calls, instead of the protocol's")
    ] = None,
    num: Annotated[int | None, tyro.conf.arg(help="samples per point, instead of the protocol's")] = None,
    scorer: ScorerName = "smollm2",
    data: Data = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    top_p: TopP = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    out: Annotated[
        Path, tyro.conf.arg(help="directory of the study; what it holds is not done again")
    ] = Path("frontier"),
    leave: Annotated[
        bool,
        tyro.conf.arg(help="end when other processes are at all that is left, instead of waiting for them"),
    ] = False,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Perplexity against entropy as temperature changes, for any models of one corpus, read at the data's entropy.

    Human text and degenerate texts with low perplexity are measured beside them. Running the same command
    again resumes it: every point is stored under the hash of all settings that decide it. Running it several times at
    once, on one machine or several, shares the points among them.
    """
    from simplax.evaluate.frontier.matches import matches
    from simplax.evaluate.frontier.protocol import choose
    from simplax.evaluate.frontier.report import shortened, write_study
    from simplax.evaluate.frontier.runner import Runner, pending_cost
    from simplax.evaluate.frontier.store import Store
    from simplax.evaluate.frontier.yardstick import Yardstick
    from simplax.evaluate.text import load_scorer
    from simplax.io.manifest import environment
    from simplax.io.sharding import current
    from simplax.viz.figures import pyplot

    chosen = choose(protocol, temperatures, steps, num)
    if batch_size != "auto" and batch_size < 1:
        raise UserError(f"the batch size must be at least 1, got {batch_size}.")
    if seed < 0:
        raise UserError(f"the seed must not be negative, got {seed}.")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"--top-p must lie above 0 and be at most 1, got {top_p}.")
    pyplot()  # a missing matplotlib is reported before the work, not after it
    entrants, prepared, described = _entrants(
        models, chosen, data, seed, read_eta(eta), top_p, _loading(sampler, weights, device, dtype, compile)
    )
    judge = load_scorer(scorer, device=device)
    yardstick = Yardstick(prepared, judge, chosen.num, seed, out / "human")
    cost = announce(pending_cost(entrants, Store(out), batch_size))
    with _watching() as watch:
        rows = Runner(
            entrants, yardstick, Store(out), watch, batch_size, wait=not leave, waiting=_Waiting()
        ).run()
    if rows is None:
        words = "other processes are at the points that are left: the last of them writes the report"
        emit(json, {"complete": False, "out": str(out)}, lambda: words)
        return
    found = matches(rows, seed)
    setting = _sentence(chosen, prepared.length, seed)
    record = {
        **environment(),
        "evaluation": "frontier",
        "models": described,
        "protocol": {
            "name": chosen.name,
            "temperatures": list(chosen.temperatures),
            "steps": list(chosen.steps),
            "num": chosen.num,
        },
        "seeds": {"first": seed, "count": chosen.num},
        "eta": eta,
        "top_p": top_p,
        "measured_with": yardstick.identity,
        "result": {
            "data": shortened(rows[:1])[0],
            "controls": shortened([row for row in rows if row["kind"] == "control"]),
            "points": shortened([row for row in rows if row["kind"] == "model"]),
            "matches": found,
        },
    }
    written = current().on_first(
        lambda: write_study(out, record, rows, found, scorer=judge.name, setting=setting)
    )
    answer = {**record, "written": written, "cost": cost}
    emit(json, answer, lambda: _shown(rows, found, judge.name, setting, written))


class _Waiting:
    """Says once who is waited for, and again when that changes."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(self, others: dict[str, str]) -> None:
        who = set(others.values())
        if who != self.said:
            self.said = who
            what = "1 point that is" if len(others) == 1 else f"{len(others)} points that are"
            say(f"waiting for {what} being made by {', '.join(sorted(who))}")


def _entrants(
    models: Sequence[str],
    chosen: Protocol,
    data: Path | None,
    seed: int,
    eta: Any,
    top_p: float | None,
    load: Callable[[str], Model],
) -> tuple[list[Entrant], Prepared, list[dict[str, Any]]]:
    """Every model with its points, all checked against the data before anything is drawn."""
    from simplax.evaluate.frontier.entrants import check, jobs, labels, name_of
    from simplax.evaluate.frontier.runner import Entrant

    if not models:
        raise UserError("name at least one model.")
    entrants, described = [], []
    prepared: Prepared | None = None
    for name, label in zip(models, labels(models)):
        model = load(name)
        prepared = human_text(model, data) if prepared is None else prepared
        check(model, prepared, label)
        entrants.append(Entrant(partial(load, name), jobs(model, label, chosen, seed, eta, top_p), eta))
        described.append({"row": label, "method": name_of(model), **model.describe()})
    if len({job.settings["top_p"] for entrant in entrants for job in entrant.jobs}) > 1:
        raise UserError("these models have different top-p by default: choose one for all with --top-p.")
    assert prepared is not None
    return entrants, prepared, described


def _loading(
    sampler: SamplerChoice, weights: Any, device: str, dtype: Any, compile: bool
) -> Callable[[str], Model]:
    from simplax.pretrained.model import from_pretrained

    return lambda name: sampler.on(
        from_pretrained(name, weights=weights, device=device, dtype=dtype, compile=compile)
    )


def human_text(model: Any, data: Path | None) -> Prepared:
    """The prepared data that was named, or the data of the model."""
    from simplax.data.text import Prepared
    from simplax.tasks import TextTask

    if data is not None:
        return Prepared.open(data)
    task = model.config.task
    if not isinstance(task, TextTask):
        raise UserError(f"the model {model.config.name!r} was not trained on text: name one that was.")
    if task.corpus == "synthetic":
        raise UserError("this model was trained on random tokens: name prepared text with --data.")
    return task.prepared()


def _sentence(chosen: Protocol, length: int, seed: int) -> str:
    values = chosen.temperatures
    return (
        f"Protocol {chosen.name}: {len(values)} temperature{'s' * (len(values) > 1)} from {values[0]:g} to "
        f"{values[-1]:g}, {chosen.num:,} samples of {length:,} tokens per point, seeds from {seed}."
    )


def _shown(
    rows: list[dict[str, Any]], found: list[dict[str, Any]], scorer: str, setting: str, written: list[str]
) -> Any:
    from rich.console import Group
    from rich.text import Text

    from simplax.evaluate.frontier.tables import LEGEND, main_table, matched_table, summary

    marks = [Text(f"  {mark} {what}") for mark, what in LEGEND.items()]
    head = [Text(f"{setting}\nPerplexity under {scorer}. {summary(rows)}\n")]
    files = Text("\n" + "\n".join(written))
    return Group(
        *head,
        rich_table(main_table(rows, found)),
        Text(),
        *marks,
        Text(),
        rich_table(matched_table(found)),
        files,
    )


def rich_table(one: Table) -> Any:
    from rich.text import Text

    lines: list[list[Any]] = [
        [Text(cell, style="bold" if (i, j) in one.strong else "") for j, cell in enumerate(line)]
        for i, line in enumerate(one.rows)
    ]
    return table(one.columns, lines, names=one.labels)


@contextmanager
def _watching() -> Iterator[Callable[[Event], None]]:
    """A bar with the rate and the time left for people, a line per finished set for log files."""
    if not sys.stderr.isatty() or not first_process():
        yield _log
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("frontier", total=None, now="")

        def show(event: Event) -> None:
            bar.update(
                task, completed=event.finished, total=event.total, description=event.what, now=_now(event)
            )
            if event.record is not None and not event.kept:
                bar.console.print(_line(event), highlight=False, markup=False)

        yield show


def _now(event: Event) -> str:
    rate = "" if event.rate is None else f", {event.rate:.3g}/s"
    left = "" if event.left is None else f", {duration(event.left)} left"
    return f"{event.work} {event.done}/{event.of}{rate}{left}"


def _log(event: Event) -> None:
    if event.record is not None and not event.kept:
        say(_line(event))


def _line(event: Event) -> str:
    from simplax.evaluate.frontier.tables import number, perplexity

    columns = (event.record or {})["columns"]
    left = "" if event.left is None else f"; {duration(event.left)} left"
    return (
        f"[{event.finished}/{event.total}] {event.what}: PPL {perplexity(columns['perplexity'])}, "
        f"entropy {number(columns['entropy'], '.3f')}{left}"
    )
