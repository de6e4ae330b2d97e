"""Suites of Sudoku: the paper's second table, 4x4 boards in minutes, two rows in seconds, and what explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simplax.methods import AR, UDLM, Duo, Method, Simplax
from simplax.methods.uniform import UniformMethod
from simplax.nn import Architecture
from simplax.samplers import Ancestral, Psi
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.adjust import adjusted
from simplax.suites.declared import Entry, Options, Published, Setting, Suite
from simplax.suites.grids import tries
from simplax.suites.rows import SOFT_CAP, Plan, can_carry, method_of, seeds_of, steps_of
from simplax.suites.sudoku_benchmark import SudokuBenchmark
from simplax.tasks import SudokuTask, Task

# 1.19 M parameters; one core with bf16 units takes 0.22 s per step of 64 boards, and 1.3 ms per board and call
STEPS, BATCH = 1800, 64
_TRUNK = Architecture(width=96, depth=6, heads=4)
_PREFIX = "reads the clues as a prefix: 180 tokens, 89 of them predicted, instead of 81 cells with the clues clamped"
_COLUMNS = ("40", "35", "30", "25", "20", "17", "0")

PAPER = Published(
    "Sakurai et al. 2026, table 2: 25 to 29 M parameters, 20,000 steps of 256, all methods with the prefix layout",
    {
        name: dict(zip(_COLUMNS, values))
        for name, values in {
            "ar": (16.00, 4.05, 0.70, 0.05, 0.00, 0.00, 8.15),
            "duo": (97.00, 84.15, 48.85, 16.00, 4.80, 0.40, 80.95),
            "flm": (96.45, 83.80, 48.30, 14.05, 3.30, 0.45, 34.05),
            "mdlm": (98.45, 85.15, 48.00, 11.80, 2.70, 0.20, 22.35),
            "sflm": (77.70, 42.40, 10.75, 1.15, 0.05, 0.00, 1.25),
            "sflm_adaptive": (94.70, 78.70, 41.60, 11.90, 2.95, 0.25, 3.45),
            "simplax": (98.55, 91.05, 61.75, 25.90, 8.80, 1.20, 95.85),
        }.items()
    },
)


def on_cells(method: Method, task: Task, trunk: Architecture) -> tuple[Task, Architecture, Mapping[str, str]]:
    """Cells whose rows, columns and boxes the network is told; AR can only read clues that come first."""
    assert isinstance(task, SudokuTask)
    if isinstance(method, AR):
        differs = dict.fromkeys(
            ("task.layout", "architecture.relations", "architecture.given_embedding"), _PREFIX
        )
        return replace(task, layout="prefix"), trunk, differs
    return task, replace(trunk, relations=f"sudoku{task.size}", given_embedding=True), {}


def plan_of(options: Options) -> Plan:
    return Plan(
        task=SudokuTask(size=9, layout="cells", clues=30, augment=True),
        trunk=_TRUNK,
        steps=steps_of(options, STEPS),
        batch_size=BATCH,
        precision=options.precision,
        place=on_cells,
    )


def benchmark_of(options: Options) -> SudokuBenchmark:
    standard = SudokuBenchmark()
    return standard if options.num is None else replace(standard, num=options.num)


def sudoku(options: Options) -> Suite:
    entries = plan_of(options).every_method()
    title = "9x9 Sudoku: boards solved by clue count, and valid blank boards (%)"
    return Suite("sudoku", title, benchmark_of(options), entries, seeds_of(options), PAPER)


def _four(options: Options, steps: int) -> tuple[Plan, SudokuBenchmark]:
    plan = Plan(
        task=SudokuTask(size=4, layout="cells", clues=6),
        trunk=Architecture(width=48, depth=3, heads=2),
        steps=steps_of(options, steps),
        batch_size=64,
        precision=options.precision,
        place=on_cells,
        ema=0.99,
    )
    standard = SudokuBenchmark(
        size=4, clues=(8, 6, 5, 0), num=500, calls=25, develop_clues=6, develop_num=100, batch_size=100
    )
    return plan, standard if options.num is None else replace(standard, num=options.num)


def sudoku4(options: Options) -> Suite:
    plan, benchmark = _four(options, 1000)
    title = "4x4 Sudoku: boards solved by clue count, and valid blank boards (%)"
    return Suite("sudoku4", title, benchmark, plan.every_method(), seeds_of(options))


def toy(options: Options) -> Suite:
    plan, benchmark = _four(options, 150)
    plan = replace(plan, trunk=Architecture(width=32, depth=2, heads=2, cond_dim=32), batch_size=32)
    benchmark = replace(benchmark, clues=(6, 0), calls=16, develop_num=24, num=options.num or 60, chunk=30)
    rows = [
        plan.entry(name, method_of(name, plan.steps).facts.title, method_of(name, plan.steps))
        for name in ("mdlm", "simplax")
    ]
    return Suite("toy", "4x4 Sudoku, two methods (%)", benchmark, tuple(rows), seeds_of(options))


def ladder(options: Options) -> Suite:
    """From UDLM and Duo to Simplax, one change at a time; every rung keeps the changes before it."""
    plan = plan_of(options)
    capped = replace(plan.trunk, soft_cap=30.0)
    noted: Any = {"trunk": capped, "differs": {"architecture.soft_cap": SOFT_CAP}}
    plain = tries(Ancestral())
    # ancestral chains at temperature 1, so that temperature is a rung of its own
    powers = tuple(Setting(adjusted(Ancestral(), time_power=p)) for p in (1.0, 1.25, 1.5, 2.0, 2.5, 3.0))
    etas = tuple(Setting(SimplaxSampler(eta=eta)) for eta in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0))
    constant, relaxed = UDLM(weighting="constant"), method_of("simplax", plan.steps)
    duo = method_of("duo", plan.steps)
    assert isinstance(duo, Duo) and isinstance(relaxed, Simplax)
    rows = (
        plan.entry("duo", "Duo, ancestral", duo, powers),
        plan.entry("udlm", "UDLM, ancestral", UDLM(), powers),
        plan.entry("constant", "+ constant weighting", constant, powers),
        plan.entry("soft-cap", "+ soft cap of the logits", constant, powers, **noted),
        plan.entry("training-eta", "+ eta 0.01 in training", relaxed, powers, **noted),
        plan.entry("sampling-eta", "+ eta in sampling", relaxed, etas, **noted),
        plan.entry("temperature", "+ temperature and times", relaxed, tries(relaxed.sampler()), **noted),
        # the sampler's rungs on the first weights: what training adds to them
        plan.entry("udlm-sampling-eta", "UDLM, eta in sampling", UDLM(), etas),
        plan.entry("udlm-temperature", "UDLM, ancestral, temperature and times", UDLM(), plain),
        plan.entry("udlm-both", "UDLM, eta, temperature and times", UDLM(), tries(SimplaxSampler())),
    )
    title = "9x9 Sudoku: what carries the gain from UDLM to Simplax (%)"
    return Suite("sudoku-ladder", title, benchmark_of(options), rows, seeds_of(options))


_REDRAWS: dict[str, tuple[str, Any]] = {
    "ancestral": ("ancestral", Ancestral()),
    "eta": ("Simplax's redraw", SimplaxSampler()),
    "posterior": ("posterior redraw", Psi()),
}


def axes(options: Options) -> Suite:
    """With and without the hidden carry, and every method of uniform noise with three ways to redraw.

    Trainings without a carry are those of the suite `sudoku`: if it has run, only their samplers are measured.
    """
    plan = plan_of(options)
    rows: list[Entry] = []
    for entry in plan.every_method():
        if not can_carry(entry):
            continue
        method = entry.config.method
        kinds = {"": ("", None)} if not isinstance(method, UniformMethod) else _REDRAWS
        for kind, (words, sampler) in kinds.items():
            chosen = entry.tries if sampler is None else tries(sampler)
            for carry in ("none", "hidden"):
                name = "-".join(filter(None, (entry.name, kind, "carry" if carry == "hidden" else "")))
                parts = [entry.title, words, "hidden carry" if carry == "hidden" else ""]
                trunk = replace(plan.trunk, carry=carry)
                carried = "the hidden state of a call is read by the next"
                differs = {"architecture.carry": carried} if carry == "hidden" else {}
                title = ", ".join(filter(None, parts))
                rows.append(plan.entry(name, title, method, chosen, trunk=trunk, differs=differs))
    title = "9x9 Sudoku: carry and redraw (%)"
    return Suite("sudoku-axes", title, benchmark_of(options), tuple(rows), seeds_of(options))
