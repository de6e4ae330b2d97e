"""Text as a benchmark and as a suite: perplexity at the entropy of the data, by number of network calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from simplax.concentration import PerToken
from simplax.evaluate.text.words import share_of_known, vocabulary
from simplax.methods import UDLM, HasLikelihood, Method, Simplax
from simplax.nn import Architecture
from simplax.pretrained.model import Model
from simplax.recipes.discrete import TEXT_NU
from simplax.samplers import Ancestral, Psi, Sampler
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.kappa import Fixed
from simplax.suites.benchmark import Benchmark, Column, Measured, Point, Progress, Surroundings
from simplax.suites.declared import Entry, Options, Setting, Suite
from simplax.suites.rows import BOUND_WEIGHTING, Plan, seeds_of, steps_of
from simplax.tasks import Task, TextTask

STEPS = 2000
# 0.97 M parameters, a fifth of them in the embedding and the head
_TRUNK = Architecture(width=96, depth=5, heads=4, cond_dim=64)
VOCABULARY, LENGTH = 1024, 128
_TEMPERATURES = (0.84, 0.9, 0.96, 1.0, 1.06, 1.12)  # the paper's range
_DEVELOPMENT = 1 << 40  # first seed of the noise; evaluation begins at 0
_LIKELIHOOD, _HELD_OUT, _DRAWS = "nll", 256, 4
DATA = "human text"

Interval = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class TextBenchmark(Benchmark):
    """`num` samples at each number of `calls`, at the temperature whose samples come closest to the data's unigram
    entropy (chosen with noise of their own), judged by `scorer`; and the likelihood where a method has one.
    """

    vocabulary: int = VOCABULARY
    length: int = LENGTH
    calls: tuple[int, ...] = (16, 32, 128)
    num: int = 128
    develop_num: int = 32
    scorer: str = "smollm2"
    batch_size: int = 32

    def points(self) -> tuple[Point, ...]:
        drawn = (Point(str(calls), str(calls), calls, self._columns(calls)) for calls in self.calls)
        column = Column(_LIKELIHOOD, "nats/token", best="low", scale=1.0, digits=3)
        return (*drawn, Point(_LIKELIHOOD, str(self.calls[-1]), self.calls[-1], (column,)))

    def _columns(self, calls: int) -> tuple[Column, ...]:
        # three numbers of calls are few enough for one table
        return (
            Column(f"{calls} PPL", f"{calls} calls: PPL", best="low", scale=1.0),
            Column(f"{calls} entropy", f"{calls} calls: entropy", best="none", scale=1.0, digits=2),
            Column(f"{calls} words", f"{calls} calls: real words %"),
        )

    def drawn(self, point: Point | None) -> int:
        return self.develop_num if point is None else self.num

    def references(self) -> tuple[str, ...]:
        from simplax.evaluate.text.controls import NAMES

        return (DATA, *NAMES)

    def develop(
        self, model: Model, group: str, around: Surroundings, progress: Progress
    ) -> tuple[float, float]:
        """How close the entropy is to that of held-out text: no scorer is asked."""
        from simplax.evaluate.entropy import unigram_entropy

        drawn = model.sample(
            self.develop_num, seeds=_DEVELOPMENT, batch_size=self.batch_size, progress=progress
        )
        target = unigram_entropy(model.config.task.held_out_batch(_HELD_OUT).tokens)
        return -abs(unigram_entropy(drawn.tokens.cpu()) - target), drawn.nfe

    def measure(self, model: Model, point: Point, around: Surroundings, progress: Progress) -> Measured:
        start = time.perf_counter()
        if point.key == _LIKELIHOOD:
            return self._likelihood(model, start, progress)
        drawn = model.sample(self.num, seeds=0, batch_size=self.batch_size, progress=progress)
        tokens, yardstick = drawn.tokens.cpu(), _yardstick(self)
        found = yardstick.measure(tokens)
        facts = {"caught_by": found["flags"], "text": found["text"]}
        share = share_of_known(yardstick.decode(tokens), _known_words(self))
        values = self._values(found, share, point.calls)
        return Measured(values, self.num, drawn.nfe, time.perf_counter() - start, facts)

    def _likelihood(self, model: Model, start: float, progress: Progress) -> Measured:
        """Empty for methods that have none."""
        if not isinstance(model.method, HasLikelihood):
            return Measured({}, 0, 0.0, 0.0, {"kind": "none"})
        held = model.config.task.held_out_batch(_HELD_OUT)
        exact = model.method.exact_likelihood
        value = model.nll(held.tokens, draws=1 if exact else _DRAWS, batch_size=self.batch_size)
        half = 1.96 * value.standard_error
        nats = value.nats_per_token
        facts = {"kind": "exact" if exact else "upper bound"}
        triple = (nats, nats - half, nats + half)
        return Measured({_LIKELIHOOD: triple}, _HELD_OUT, 0.0, time.perf_counter() - start, facts)

    def refer(self, name: str, around: Surroundings, progress: Progress) -> Measured:
        start, yardstick = time.perf_counter(), _yardstick(self)
        rows = yardstick.held_out if name == DATA else yardstick.controls[name].ids
        found = yardstick.human() if name == DATA else yardstick.measure(rows)
        share = share_of_known(yardstick.decode(rows), _known_words(self))
        values = {k: value for calls in self.calls for k, value in self._values(found, share, calls).items()}
        facts = {"caught_by": found["flags"]}
        return Measured(values, found["num"], 0.0, time.perf_counter() - start, facts)

    def _values(self, found: Any, share: Interval, calls: int) -> dict[str, Interval]:
        columns, ends = found["columns"], found["intervals"]
        return {
            f"{calls} PPL": (columns["perplexity"], *ends["perplexity"]),
            f"{calls} entropy": (columns["entropy"], *ends["entropy"]),
            f"{calls} words": share,
        }


@lru_cache(maxsize=1)
def _known_words(benchmark: TextBenchmark) -> frozenset[str]:
    """All words of the training split."""
    yardstick = _yardstick(benchmark)
    return vocabulary(yardstick.decode(yardstick.train_rows))


@lru_cache(maxsize=1)
def _yardstick(benchmark: TextBenchmark) -> Any:
    from simplax.evaluate.frontier.yardstick import Yardstick
    from simplax.evaluate.text import load_scorer

    task = TextTask(categories=benchmark.vocabulary, sequence_length=benchmark.length)
    return Yardstick(task.prepared(), load_scorer(benchmark.scorer), benchmark.num)


def _as_it_is(
    method: Method, task: Task, trunk: Architecture
) -> tuple[Task, Architecture, Mapping[str, str]]:
    return task, trunk, {}


def _plan(options: Options) -> Plan:
    return Plan(
        task=TextTask(categories=VOCABULARY, sequence_length=LENGTH),
        trunk=_TRUNK,
        steps=steps_of(options, STEPS),
        batch_size=64,
        precision=options.precision,
        place=_as_it_is,
        soft_cap=30.0,
        methods={"simplax": (Simplax(weighting="elbo", concentration=0.01), BOUND_WEIGHTING)},
        nu=TEXT_NU,
    )


def _benchmark(options: Options) -> TextBenchmark:
    return TextBenchmark() if options.num is None else TextBenchmark(num=options.num)


def text(options: Options) -> Suite:
    title = "Messages of US presidents: perplexity at the entropy of the data, by network calls"
    entries = tuple(_tempered(entry) for entry in _plan(options).every_method())
    return Suite("text", title, _benchmark(options), entries, seeds_of(options))


def _tempered(entry: Entry) -> Entry:
    """Temperatures alone are tried: they are what moves a sample along the frontier."""
    return replace(entry, tries=_at_temperatures(entry.config.method.sampler()))


def _at_temperatures(sampler: Sampler[Any]) -> tuple[Setting, ...]:
    return tuple(Setting(sampler, value) for value in _TEMPERATURES)


# ancestral steps are those of eta 0; redraws per token are the same at every number of calls
_REDRAWS: dict[str, tuple[str, Sampler[Any]]] = {
    "ancestral": ("ancestral", Ancestral()),
    "eta-0.01": ("eta 0.01", SimplaxSampler(eta=0.01)),
    "eta-1": ("eta 1", SimplaxSampler(eta=1.0)),
    "eta-10": ("eta 10", SimplaxSampler(eta=10.0)),
    "redraws-1": ("one redraw per token", SimplaxSampler(eta=PerToken(1.0))),
    "redraws-4": ("four redraws per token", SimplaxSampler(eta=PerToken(4.0))),
    "posterior": ("posterior redraw", Psi(kappa=Fixed(0.0))),
}


def redraws(options: Options) -> Suite:
    """Three trainings of the suite `text`, each sampled with every redraw at the entropy of the data, and UDLM with the
    data's frequencies as its prior."""
    plan = _plan(options)
    rows = {entry.name: entry for entry in plan.every_method()}
    entries = tuple(
        replace(
            rows[name],
            name=f"{name}-{kind}",
            title=f"{rows[name].title}, {words}",
            tries=_at_temperatures(sampler),
        )
        for name in ("simplax", "udlm", "duo")
        for kind, (words, sampler) in _REDRAWS.items()
    )
    towards_words = plan.entry(
        "udlm-unigram", "UDLM, ancestral, noised towards the data's frequencies", UDLM(pi="unigram")
    )
    title = "Messages of US presidents: redraws at sampling time, perplexity at the entropy of the data"
    return Suite(
        "text-redraw", title, _benchmark(options), (*entries, _tempered(towards_words)), seeds_of(options)
    )
