"""Molecules: QM9 in 45 minutes on two cores, and MOSES, the public benchmark, in hours."""

from __future__ import annotations

from dataclasses import replace

from simplax.config.run import RunConfig, SamplingDefaults
from simplax.methods import UDLM, Method, Simplax
from simplax.nn import PRESETS
from simplax.recipes.continuous import SHORT
from simplax.recipes.discrete import MOLECULES_NU, discrete
from simplax.recipes.own import reading_labels
from simplax.recipes.registry import recipe
from simplax.samplers import Psi
from simplax.samplers.kappa import Fixed
from simplax.tasks import MoleculesTask
from simplax.times import Grid
from simplax.train import Optimizer, Run

# one core of a busy x86-64 server took 0.45 s per QM9 step of Simplax; two idle ones are expected to take 0.25 s
QM9_STEPS, MOSES_STEPS = 9_000, 15_000


MOLECULES_SIMPLAX = Simplax(weighting="elbo", concentration=0.01)
"""The paper's training concentration. Constant weighting, its choice for Sudoku and the second phase on text, trains
noisy times too little here: 46 % of strings were valid where UDLM had 58 %."""


def molecule_methods(steps: int) -> dict[str, Method]:
    """Every method as published, but the weighting of Simplax."""
    return {"simplax": MOLECULES_SIMPLAX, "udlm": UDLM(), **discrete(steps, MOLECULES_NU), **SHORT}


def _run(task: MoleculesTask, method: Method, steps: int, num_steps: int) -> RunConfig:
    optimizer = Optimizer("muon", learning_rate=2e-3, matrix_learning_rate=0.02, warmup=200, decay="linear")
    run = Run(
        steps=steps, batch_size=128, optimizer=optimizer, ema=0.999, compile=True, validate_every=1000,
        save_every=500,
    )  # fmt: skip
    # every string begins at the first position, which rotary attention alone cannot tell from the others
    architecture = replace(PRESETS["cpu-micro"], position_embedding=True)
    if isinstance(method, Simplax):  # the paper caps the logits of Simplax only
        architecture = replace(architecture, soft_cap=30.0)
    architecture = reading_labels(architecture, task)
    return RunConfig("", task, method, architecture, run, SamplingDefaults(num_steps=num_steps))


@recipe(
    "qm9",
    "QM9, 131,000 small molecules as 22 atom-wise tokens; under 2 M parameters, some 40 minutes on two cores",
    molecule_methods(QM9_STEPS),
)
def qm9(method: Method) -> RunConfig:
    return _run(MoleculesTask("qm9"), method, QM9_STEPS, num_steps=32)


@recipe(
    "qm9-qed",
    "QM9 with a label: whether QED is high, above its 90th percentile; for guidance. Otherwise as qm9",
    molecule_methods(QM9_STEPS),
)
def qm9_qed(method: Method) -> RunConfig:
    return _run(MoleculesTask("qm9", labels=("qed",)), method, QM9_STEPS, num_steps=32)


@recipe(
    "qm9-rings",
    "QM9 with a label: whether the number of rings is high, three or more; for guidance. Otherwise as qm9",
    molecule_methods(QM9_STEPS),
)
def qm9_rings(method: Method) -> RunConfig:
    return _run(MoleculesTask("qm9", labels=("rings",)), method, QM9_STEPS, num_steps=32)


@recipe(
    "moses",
    "MOSES, 1.58 million molecules as 54 atom-wise tokens; under 2 M parameters, about three hours on two cores",
    molecule_methods(MOSES_STEPS),
)
def moses(method: Method) -> RunConfig:
    return _run(MoleculesTask("moses"), method, MOSES_STEPS, num_steps=64)


def _carried(plain: RunConfig, num_steps: int) -> RunConfig:
    """A hidden carry, trained through all calls of its chains, and every token redrawn from its posterior.

    A low temperature makes more strings valid and fewer of them different: measure FCD at the one that is used.
    """
    optimizer = replace(plain.run.optimizer, matrix_learning_rate=0.015, warmup=100)
    # 64 chains of 4 calls are as many losses as two batches of 128
    run = replace(plain.run, batch_size=64, optimizer=optimizer, compile=False, validate_every=0)
    sampler = Psi(kappa=Fixed(0.0), times=Grid(power=3.0))
    return replace(
        plain,
        architecture=replace(plain.architecture, carry="hidden"),
        run=run,
        sampling=SamplingDefaults(num_steps=num_steps, temperature=0.6, sampler=sampler),
    )


CARRIED = {"simplax": replace(MOLECULES_SIMPLAX, rollout=4, gradient_calls=4)}


@recipe(
    "qm9-carry",
    "QM9 whose network carries its hidden state from call to call, trained on chains of 4 calls; an hour on one core",
    CARRIED,
)
def qm9_carry(method: Method) -> RunConfig:
    """The settings of the bundled model, which had weights of an earlier run to start from."""
    return _carried(qm9(method), num_steps=32)


@recipe(
    "moses-carry",
    "MOSES whose network carries its hidden state from call to call, trained on chains of 4 calls; not trained yet",
    CARRIED,
)
def moses_carry(method: Method) -> RunConfig:
    return _carried(moses(method), num_steps=64)
