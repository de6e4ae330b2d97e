"""Sudoku runs: 4x4 in two minutes, 9x9 on a CPU, and the paper's own setting (its appendix G)."""

from __future__ import annotations

from dataclasses import replace

from simplax.concentration import Vanishing
from simplax.config.run import RunConfig, SamplingDefaults, Unconditional
from simplax.methods import AR, UDLM, Method, Simplax
from simplax.nn import PRESETS, Architecture
from simplax.recipes.continuous import PUBLISHED, SHORT
from simplax.recipes.discrete import discrete
from simplax.recipes.registry import every_method, recipe
from simplax.samplers import Psi
from simplax.samplers.adjust import adjusted
from simplax.samplers.kappa import Fixed
from simplax.tasks import SudokuTask
from simplax.times import Grid
from simplax.train import Optimizer, Run

STEPS_4X4, STEPS_9X9 = 1000, 20_000

# the paper's training concentration; the sampler's default too
UNIFORM_METHODS: dict[str, Simplax | UDLM] = {
    "simplax": Simplax(weighting="constant", concentration=0.01),
    "udlm": UDLM(weighting="constant"),
}
SUDOKU_METHODS: dict[str, Method] = {**UNIFORM_METHODS}


def _related(method: Method, task: SudokuTask, architecture: Architecture) -> tuple[SudokuTask, Architecture]:
    """A network that sees the board as cells and which of them are clues; AR can only read clues that come first."""
    if isinstance(method, AR):
        return replace(task, layout="prefix"), architecture
    return task, replace(architecture, relations=f"sudoku{task.size}", given_embedding=True)


@recipe(
    "sudoku4",
    "4x4 Sudoku with 6 clues, 48 of the 288 solutions never trained; two minutes",
    every_method({**SUDOKU_METHODS, **discrete(STEPS_4X4), **SHORT}),
)
def sudoku4(method: Method) -> RunConfig:
    optimizer = Optimizer("muon", learning_rate=2e-3, warmup=100, decay="linear")
    run = Run(
        steps=STEPS_4X4, batch_size=128, optimizer=optimizer, ema=0.995, validate_every=500, save_every=500
    )
    cells = SudokuTask(size=4, layout="cells", clues=6)
    task, architecture = _related(method, cells, replace(PRESETS["cpu-nano"], depth=3))
    # where one answer is right, a sampler that re-anchors often repairs what it wrote too early
    sampler = method.sampler(eta=10.0) if isinstance(method, Simplax) else None
    return RunConfig("", task, method, architecture, run, SamplingDefaults(num_steps=32, sampler=sampler))


@recipe(
    "sudoku-cpu",
    "9x9 Sudoku on two cores: 81 cells (AR: 180 tokens), 30 clues, Muon, augmentation",
    {**SUDOKU_METHODS, **discrete(STEPS_9X9)},
)
def sudoku_cpu(method: Method) -> RunConfig:
    optimizer = Optimizer("muon", learning_rate=2e-3, matrix_learning_rate=0.02, warmup=200, decay="linear")
    run = Run(
        steps=STEPS_9X9, batch_size=128, optimizer=optimizer, ema=0.999, compile=True, validate_every=1000,
        save_every=500,
    )  # fmt: skip
    cells = SudokuTask(size=9, layout="cells", clues=30, augment=True)
    task, architecture = _related(method, cells, PRESETS["cpu-micro"])
    config = RunConfig("", task, method, architecture, run, SamplingDefaults(num_steps=89))
    if not isinstance(method, Simplax):
        return config
    # chosen on development boards: with clues repair often; on a blank board seldom, and in finer steps at the end
    seldom = Vanishing(4.0, power=0.0, until=0.35, least=1.0)
    blank = Unconditional(0.3, adjusted(method.sampler(eta=seldom), time_power=2.2))
    return replace(
        config,
        sampling=replace(config.sampling, sampler=method.sampler(eta=100.0)),
        unconditional=blank,
    )


@recipe(
    "sudoku-carry",
    "9x9 Sudoku whose network carries its hidden state from call to call, trained on chains of 8 calls",
    {name: replace(method, rollout=8, gradient_calls=4) for name, method in UNIFORM_METHODS.items()},
)
def sudoku_carry(method: Method) -> RunConfig:
    """Meant to start from `sudoku-cpu` of the same method; warm-up, stable, decay, so that it may be branched."""
    plain = sudoku_cpu(method)
    optimizer = replace(
        plain.run.optimizer, learning_rate=1e-3, matrix_learning_rate=0.01, warmup=50, decay="wsd"
    )
    # 16 chains of 8 calls are as many losses as a batch of 128
    run = replace(plain.run, steps=4000, batch_size=16, optimizer=optimizer, ema=0.998, save_every=200)
    # chosen on development boards: all tokens are redrawn from their posterior at every step, with and without clues
    sampler = Psi(kappa=Fixed(0.0), times=Grid(power=1.5))
    return replace(
        plain,
        architecture=replace(plain.architecture, carry="hidden"),
        run=run,
        sampling=SamplingDefaults(num_steps=89, temperature=0.3, sampler=sampler),
        unconditional=None,
    )


@recipe(
    "sudoku-loops",
    "9x9 Sudoku by 2 tied blocks, 6 loops a call, a loss at every loop and a carry; 45 calls make 540 block passes",
    UNIFORM_METHODS,
)
def sudoku_loops(method: Method) -> RunConfig:
    """As many block passes per board as the six untied blocks of `sudoku-cpu` make in 89 calls."""
    plain = sudoku_cpu(method)
    trunk = replace(plain.architecture, depth=2, carry="hidden", loops=6, loop_loss=True)
    sampler = Psi(kappa=Fixed(0.0), times=Grid(power=2.2))
    sampling = SamplingDefaults(num_steps=45, temperature=0.3, sampler=sampler)
    return replace(plain, architecture=trunk, sampling=sampling, unconditional=None)


@recipe(
    "sudoku-paper",
    "the paper's 9x9 Sudoku: 28.56 M parameters, 20,000 steps of 256",
    every_method({**SUDOKU_METHODS, **discrete(STEPS_9X9), **PUBLISHED}),
)
def sudoku_paper(method: Method) -> RunConfig:
    optimizer = Optimizer("adamw", learning_rate=3e-4, warmup=2500)
    run = Run(steps=STEPS_9X9, batch_size=256, optimizer=optimizer, ema=0.9999, validate_every=1000)
    task = SudokuTask(size=9, layout="prefix", clues=30)
    return RunConfig("", task, method, PRESETS["tiny"], run, SamplingDefaults(num_steps=89))
