"""What the method's own choices do on 9x9 Sudoku: input, self-conditioning, the end of the noise, the last step, and
the objectives of the paper's appendix E. Every row changes one thing about Simplax as the main table has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simplax.methods import Simplax
from simplax.objectives.bridge import FiniteStep
from simplax.samplers import Simplax as SimplaxSampler
from simplax.schedules import Linear
from simplax.suites.declared import Entry, Options, Setting, Suite
from simplax.suites.grids import tries
from simplax.suites.rows import Plan, method_of, seeds_of
from simplax.suites.sudoku_suites import benchmark_of, plan_of
from simplax.times import Grid

_STEPS = 1000  # of a chain under appendix E's objectives, as many as their default
_END = 0.01  # where chains stop whose last call decides
_SELF = "architecture.carry"
_CONDITIONED = "the network also reads its last prediction, drawn in training by a first call"


def _ended(settings: tuple[Setting, ...], last: str) -> tuple[Setting, ...]:
    """The same settings on a grid that stops early, with one more call that decides."""
    found = []
    for setting in settings:
        sampler = setting.sampler
        assert isinstance(sampler, SimplaxSampler) and isinstance(sampler.times, Grid)
        times = replace(sampler.times, end=_END)
        found.append(replace(setting, sampler=replace(sampler, times=times, last=last)))
    return tuple(found)


def _rows(plan: Plan, base: Simplax) -> tuple[Entry, ...]:
    own = tries(base.sampler())
    conditioned: dict[str, Any] = {
        "trunk": replace(plan.trunk, carry="probabilities"),
        "differs": {_SELF: _CONDITIONED},
    }
    reads_w = replace(base, reads_w=True, form="atoms")
    surrogates = (
        ("tight-discrete", "tight bound on tokens", "tight_discrete", "atoms"),
        ("loose-joint", "loose bound on token and state", "loose_joint", "atoms"),
        ("tight-joint", "tight bound on token and state", "tight_joint", "atoms"),
    )
    return (
        plan.entry("simplax", "Simplax: reads z, continuous time, last step drawn", base),
        plan.entry("self", "+ self-conditioning", base, **conditioned),
        plan.entry("w", "reads w (atoms)", reads_w),
        plan.entry("w-self", "reads w, self-conditioning", reads_w, **conditioned),
        plan.entry("alpha-0", "alpha(1) = 0 instead of 0.001", replace(base, schedule=Linear())),
        plan.entry("greedy", "last step: arg-max of the prediction", base, _ended(own, "greedy")),
        plan.entry("posterior", "last step: drawn from the posterior", base, _ended(own, "posterior")),
        plan.entry(
            "posterior-argmax", "last step: arg-max of the posterior", base, _ended(own, "posterior_argmax")
        ),
        plan.entry(
            "finite", f"bridge over {_STEPS:,} steps", replace(base, step=FiniteStep("bridge", _STEPS))
        ),
        *(
            plan.entry(name, title, replace(base, form=form, step=FiniteStep(surrogate, _STEPS)))
            for name, title, surrogate, form in surrogates
        ),
    )


def diagnostics(options: Options) -> Suite:
    plan = plan_of(options)
    base = method_of("simplax", plan.steps)
    assert isinstance(base, Simplax)
    title = "9x9 Sudoku: input, self-conditioning, ends and objectives of Simplax (%)"
    return Suite("sudoku-diagnostics", title, benchmark_of(options), _rows(plan, base), seeds_of(options))
