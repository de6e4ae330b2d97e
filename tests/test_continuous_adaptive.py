"""S-FLM's adaptive schedule: when it refits, to what, and that a checkpoint holds all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from simplax import recipes
from simplax.functional import refit_schedule
from simplax.methods import SFLM, Adaptation, SFLMAdaptive
from simplax.nn import Architecture
from simplax.nn.sflm import Adaptive, AlphaTable, SphereDenoiser
from simplax.pretrained import model as hub
from simplax.random import Keys
from simplax.recipes.launch import build
from simplax.tasks import ToyTask
from simplax.times import stratified
from simplax.train import Optimizer, Run, train
from simplax.typing import Batch, StepContext

SMALL = Architecture(width=16, depth=1, heads=2, cond_dim=8)
EAGER = SFLMAdaptive(truncation=0.5, adaptation=Adaptation(buffer=128, every=3, warmup=2))
FAST = Run(
    steps=20,
    batch_size=32,
    optimizer=Optimizer(learning_rate=5e-3, warmup=2),
    ema=0.9,
    precision="float32",
    log_every=5,
    save_every=5,
)


def logistic(t: Tensor) -> Tensor:
    return 2.3 * torch.sigmoid((t - 0.575) / 0.1)


def simulate(
    options: Adaptation, batch: int, steps: int, high: float = 0.093
) -> tuple[AlphaTable, list[int]]:
    """Refits of a schedule fed a loss that depends on alpha alone, as the trainer would call it."""
    table, adaptive, refits = AlphaTable(high), Adaptive(options), []
    for step in range(steps):
        if adaptive.due(step):
            adaptive.refit(table, step)
            refits.append(step)
        t = stratified(batch, 0, step)
        # the loss at a noise level, seen at the time at which the present schedule has that level
        level = (high - table(t)) / (high - 1e-3)
        adaptive.record(t, logistic(level), step)
    return table, refits


def test_the_published_setting_refits_from_step_1050_every_50() -> None:
    _, refits = simulate(Adaptation(buffer=12_800), 256, 1160)
    assert refits == [1050, 1100, 1150]


def test_refits_do_not_depend_on_how_batches_fall_into_the_ring() -> None:
    _, even = simulate(Adaptation(buffer=200, every=5, warmup=10), 40, 31)
    _, odd = simulate(Adaptation(buffer=200, every=5, warmup=10), 37, 31)
    assert even == [15, 20, 25, 30]
    assert odd == [20, 25, 30]
    _, large = simulate(Adaptation(buffer=200, every=5, warmup=10), 500, 21)
    assert large == [15, 20]


def test_accumulated_micro_batches_refit_once() -> None:
    adaptive = Adaptive(Adaptation(buffer=100, every=1, warmup=0))
    adaptive.record(torch.rand(120), torch.rand(120), 1)
    assert adaptive.due(2)
    adaptive.refit(AlphaTable(0.5), 2)
    assert not adaptive.due(2) and adaptive.due(3)


def test_the_first_refit_is_not_dragged_to_zero_and_later_ones_average() -> None:
    """Adam-style correction: one refit counts fully, two are weighted 0.9 to 1."""
    options = Adaptation(buffer=1000, every=1, warmup=0)
    table, adaptive, fits = AlphaTable(0.093), Adaptive(options), []
    t = stratified(1000, 0, 0)
    for step, loss in enumerate((t**3, logistic(t)), start=1):
        adaptive.record(t, loss, step)
        alone, once = AlphaTable(0.093), Adaptive(options)
        once.record(t, loss, step)
        once.refit(alone, step)
        fits.append(alone.alphas.clone())
        adaptive.refit(table, step)
        if step == 1:
            torch.testing.assert_close(table.alphas, fits[0])
    torch.testing.assert_close(table.alphas, (0.9 * fits[0] + fits[1]) / 1.9)
    assert bool((table.alphas.diff() <= 0).all())
    assert float(table.alphas.max()) <= 0.093 and float(table.alphas.min()) >= 1e-3


def test_the_fixed_point_lies_between_base_and_even_information() -> None:
    """The published composition goes about half-way: quartiles .059, .043, .027 between .070, .047, .024 and the
    ideal .051, .040, .030."""
    t = torch.linspace(0, 1, 3200, dtype=torch.float64)
    ideal = AlphaTable(0.093)
    ideal.alphas.copy_(refit_schedule(t, logistic(t), ideal.base))
    table, refits = simulate(Adaptation(buffer=3200, every=10, warmup=0), 320, 300)
    for schedule, expected in ((ideal, [0.051, 0.040, 0.030]), (table, [0.059, 0.043, 0.027])):
        quartiles = schedule(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        torch.testing.assert_close(quartiles, torch.tensor(expected).double(), rtol=0, atol=0.0015)
    assert len(refits) > 20


def test_training_records_and_evaluation_does_not() -> None:
    denoiser = EAGER.build(5, 4, SMALL)
    assert isinstance(denoiser, SphereDenoiser) and denoiser.adaptive is not None
    batch = Batch.of(Keys.from_seeds(range(8)).randint(5, 4))
    context = StepContext(Keys.from_seeds(range(8)), stratified(8, 0, 0), 5)
    loss = EAGER.loss(denoiser, batch, context)
    assert int(denoiser.adaptive.seen) == 8
    times, losses = denoiser.adaptive.records[:, :8]
    torch.testing.assert_close(times, EAGER.times(context.u))
    torch.testing.assert_close(losses, loss.per_token.detach().mean(-1).double())
    with torch.no_grad():
        EAGER.loss(denoiser, batch, context)
    EAGER.loss(denoiser.eval(), batch, context)
    assert int(denoiser.adaptive.seen) == 8


def test_reloaded_schedules_sample_identically(tmp_path: Path) -> None:
    config = replace(recipes.get("toy-sflm_adaptive"), method=EAGER, architecture=SMALL, run=FAST)
    denoiser = build(config)
    from simplax.config.run import to_json

    train(
        EAGER, denoiser, config.task.train(), FAST, tmp_path / "run", config=to_json(config), device="cpu",
        quiet=True,
    )  # fmt: skip
    assert isinstance(denoiser, SphereDenoiser) and denoiser.adaptive is not None
    assert int(denoiser.adaptive.refits) == 5  # from step 6 every third, the last before step 20 at 18
    run = hub.from_pretrained(tmp_path / "run", weights="raw", device="cpu")
    exported = hub.from_pretrained(run.save_pretrained(tmp_path / "exported"), weights="raw", device="cpu")
    for model in (run, exported):
        assert isinstance(model.denoiser, SphereDenoiser)
        assert torch.equal(model.denoiser.noise.alphas, denoiser.noise.alphas)
        assert not torch.equal(model.denoiser.noise.alphas, AlphaTable(0.5).alphas)
    one, two = (model.sample(16, num_steps=8, seeds=3).tokens for model in (run, exported))
    here = replace(run, denoiser=denoiser.eval()).sample(16, num_steps=8, seeds=3).tokens
    assert torch.equal(one, two) and torch.equal(one, here)
    # averaged weights come with the same schedule
    averaged = hub.from_pretrained(tmp_path / "run", device="cpu").denoiser
    assert isinstance(averaged, SphereDenoiser)
    assert torch.equal(averaged.noise.alphas, denoiser.noise.alphas)


class Stop(Exception):
    pass


class Interrupted:
    """The toy's training data, until a step at which somebody pulls the plug."""

    def __init__(self, at: int) -> None:
        self.source, self.at = ToyTask().train(), at
        self.length, self.vocab_size = self.source.length, self.source.vocab_size

    def batch(self, indices: Tensor) -> Batch:
        if int(indices[0]) // FAST.batch_size == self.at:
            raise Stop
        return self.source.batch(indices)


def test_a_resumed_run_refits_as_if_never_stopped(tmp_path: Path) -> None:
    def fresh() -> SphereDenoiser:
        torch.manual_seed(0)
        denoiser = EAGER.build(5, 8, SMALL)
        assert isinstance(denoiser, SphereDenoiser)
        return denoiser

    whole, first, second = fresh(), fresh(), fresh()
    options = {"config": {}, "device": "cpu", "quiet": True}
    train(EAGER, whole, ToyTask().train(), FAST, tmp_path / "whole", **options)  # type: ignore[arg-type]
    with pytest.raises(Stop):
        train(EAGER, first, Interrupted(13), FAST, tmp_path / "cut", **options)  # type: ignore[arg-type]
    train(EAGER, second, ToyTask().train(), FAST, tmp_path / "cut", **options)  # type: ignore[arg-type]
    for name, value in whole.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


PROGRAM = """
import sys, torch
from test_continuous_adaptive import EAGER, FAST, SMALL, ToyTask, train
torch.set_num_threads(1)
torch.manual_seed(0)
denoiser = EAGER.build(5, 8, SMALL)
train(EAGER, denoiser, ToyTask().train(), FAST, sys.argv[1], config={}, device="cpu", quiet=True)
"""


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    from simplax.train import checkpoint

    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    alphas = {}
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        launcher = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={processes}",
        ]
        command = [*launcher, str(tmp_path / "program.py"), str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        found = checkpoint.find(folder)
        assert found is not None
        weights = checkpoint.load(found).weights
        assert int(weights["adaptive.refits"]) == 5
        assert int(weights["adaptive.seen"]) == (FAST.steps - 2) * FAST.batch_size
        alphas[processes] = weights["noise.alphas"]
    torch.testing.assert_close(alphas[1], alphas[2], rtol=1e-3, atol=1e-4)


def test_bad_options_are_refused() -> None:
    for options in ({"buffer": 1}, {"every": 0}, {"decay": 1.0}):
        with pytest.raises(ValueError, match="adaptive schedule"):
            Adaptation(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="largest alpha"):
        SFLM(truncation=1.5).build(5, 4, SMALL)
