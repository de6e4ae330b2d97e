"""Discrete consistency distillation against its definition, and what a run of it stores."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from simplax import from_pretrained
from simplax.cli import main
from simplax.errors import UserError
from simplax.functional.duo import duo_alpha
from simplax.methods import DuoBase
from simplax.methods.distillation import Distillation, attach_teacher, paths
from simplax.random import Keys
from simplax.train import train
from simplax.typing import Batch, StepContext
from test_train_toy import SHORT, ToySource, assert_same_run, newest, toy

SIZE = 4


def test_paths_are_those_of_the_gaussian_with_fixed_noise() -> None:
    """The joint law of two tokens of a path equals that of the arg-max of a e_x + s eps at two noise levels."""
    number, gammas = 60_000, (-1.0, 1.5)
    dice = torch.Generator().manual_seed(0)
    x, eps = torch.ones(number, dtype=torch.long), torch.randn(number, SIZE, generator=dice).double()
    clean = torch.nn.functional.one_hot(x, SIZE).double()
    levels = [torch.tensor(gamma).double().sigmoid() for gamma in gammas]
    a, b = (((1 - v).sqrt() * clean + v.sqrt() * eps).argmax(-1) for v in levels)
    alphas = [duo_alpha(gamma, SIZE) for gamma in gammas]
    mine = paths(x[:, None], (alphas[0], alphas[1]), SIZE, Keys.from_seeds(torch.arange(number)))
    tables = [
        torch.bincount(SIZE * one + two, minlength=SIZE**2).double() / number
        for one, two in ((a, b), (mine[0][:, 0], mine[1][:, 0]))
    ]
    # the standard error of a cell is at most sqrt(2 / 4 / number) = 0.0029; six of them
    torch.testing.assert_close(tables[0], tables[1], rtol=0, atol=0.0175)
    assert float(tables[1][SIZE * 1 + 0]) > 0.05  # left for another category in between
    assert float(tables[1][SIZE * 0 + 1]) == 0.0 == float(tables[0][SIZE * 0 + 1])  # and none comes back


class Fixed(torch.nn.Module):
    """Logits that depend on the token and the time alone."""

    vocab_size = SIZE

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(
            torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
        )

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        return self.table[z] * (1 + t[:, None, None])


@pytest.mark.parametrize("divergence", ["backward", "forward"])
def test_the_loss_is_the_divergence_between_student_and_teacher(divergence: str) -> None:
    settings = Distillation(steps=8, round_steps=10, divergence=divergence)  # type: ignore[arg-type]
    method, student = DuoBase(distillation=settings), Fixed(0)
    method.prepare(student)
    with torch.no_grad():
        student.teacher.table.copy_(Fixed(1).table)  # type: ignore[union-attr, operator]
    x = torch.randint(SIZE, (5, 3), generator=torch.Generator().manual_seed(2))
    given = torch.zeros_like(x, dtype=torch.bool)
    given[:, 0] = True
    context = StepContext(Keys.from_seeds(torch.arange(5)), torch.linspace(0.1, 0.8, 5), step=15)
    loss = method.loss(student, Batch.of(x, given), context)
    length = 2 / 8  # the second round
    t = (method.times(context.u) + length).clamp(max=method.times.high)
    s = t - length
    alphas = (method.schedule.alpha(t)[:, None], method.schedule.alpha(s)[:, None])
    z = [torch.where(given, x, each) for each in paths(x, alphas, SIZE, context.keys.stream("corrupt"))]
    p = student(z[0], t).softmax(-1)
    q = student.teacher(z[1], s).softmax(-1)  # type: ignore[operator]
    first, second = (p, q) if divergence == "backward" else (q, p)
    expected = (first * (first / second).log()).sum(-1)
    torch.testing.assert_close(loss.per_token, torch.where(given, 0.0, expected))
    loss.mean().backward()
    assert student.table.grad is not None and student.teacher.table.grad is None  # type: ignore[union-attr]


def test_steps_double_and_stop_at_one() -> None:
    settings = Distillation(steps=16, round_steps=5)
    assert [settings.step_length(step) for step in (0, 4, 5, 10, 20, 25, 10**6)] == [
        1 / 16, 1 / 16, 1 / 8, 1 / 4, 1, 1, 1,
    ]  # fmt: skip
    assert [step for step in range(11) if settings.ends_round(step)] == [4, 9]
    with pytest.raises(ValueError, match="at least 1"):
        Distillation(steps=0)
    with pytest.raises(ValueError, match="uniform prior"):
        DuoBase(distillation=settings, pi="unigram")
    frozen = Fixed(0).requires_grad_(False)  # as under adapters
    with pytest.raises(UserError, match="leave out lora"):
        attach_teacher(frozen)


@pytest.mark.parametrize("kind", ["average", "weights"])
def test_rounds_renew_the_teacher_and_a_run_resumes_bit_for_bit(kind: str, tmp_path: Path) -> None:
    method = DuoBase(distillation=Distillation(steps=4, round_steps=3, teacher=kind))  # type: ignore[arg-type]
    run = replace(SHORT, steps=8, ema=0.5)

    def fit(where: Path, steps: int, seed: int = 0) -> None:
        student = toy(seed=seed)
        train(method, student, ToySource(), replace(run, steps=steps), where, device="cpu", quiet=True)
        assert not hasattr(student, "teacher")

    fit(tmp_path / "whole", 8)
    fit(tmp_path / "cut", 4)
    fit(tmp_path / "cut", 8, seed=9)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    stored = newest(tmp_path / "whole")
    assert not any(name.startswith("teacher.") for name in stored.ema)
    fit(tmp_path / "short", 6)  # the second round ends with step 6
    at_six = newest(tmp_path / "short")
    expected = at_six.ema if kind == "average" else at_six.weights
    for name, value in stored.weights.items():
        if name.startswith("teacher."):
            assert torch.equal(value, expected[name.removeprefix("teacher.")]), name


def test_the_command_line_distils_a_model_of_any_uniform_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [
        "--architecture.width",
        "16",
        "--architecture.depth",
        "1",
        "--run.batch_size",
        "8",
        "--device",
        "cpu",
    ]
    small += ["--run.steps", "4", "--run.validate_every", "0", "--run.optimizer.warmup", "1"]
    distil = ["train", "toy-duo-base", "--method.distillation.round_steps", "2", *small]
    assert main(["train", "toy-udlm", "--out", str(tmp_path / "teacher"), *small]) == 0
    options = ["--init-from", str(tmp_path / "teacher"), "--run.seed", "3"]
    assert main([*distil, "--out", str(tmp_path / "student"), *options]) == 0
    for weights in ("ema", "raw"):
        model = from_pretrained(tmp_path / "student", device="cpu", weights=weights)  # type: ignore[arg-type]
        assert not any(name.startswith("teacher") for name in model.denoiser.state_dict())
    capsys.readouterr()
    assert main([*distil, "--out", str(tmp_path / "nothing")]) == 2
    assert "starts from its teacher: name that model with --init-from" in capsys.readouterr().err


@pytest.mark.training
def test_a_student_beats_its_teacher_at_few_calls(tmp_path: Path) -> None:
    """As in results/distillation: likelier samples at 2, 4 and 8 calls, and nearer to the law of the chain at 2."""
    chain = [
        "--task.categories",
        "4",
        "--task.sequence_length",
        "6",
        "--run.validate_every",
        "0",
        "--device",
        "cpu",
    ]
    teacher, student = tmp_path / "teacher", tmp_path / "student"
    assert main(["train", "toy-duo-base", *chain, "--out", str(teacher)]) == 0
    options = ["--init-from", str(teacher), "--run.seed", "2", "--run.steps", "160", "--run.ema", "0.98"]
    options += ["--run.optimizer.learning_rate", "0.001", "--run.optimizer.warmup", "20"]
    options += ["--run.optimizer.decay", "constant", "--method.distillation.steps", "32"]
    options += ["--method.distillation.round_steps", "80", "--out", str(student)]
    assert main(["train", "toy-duo-base", *chain, *options]) == 0
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    try:
        measure = importlib.import_module("few_steps").measure
    finally:
        sys.path.pop(0)
    first, second = (
        measure(from_pretrained(path, device="cpu"), [2, 4, 8], 8000) for path in (teacher, student)
    )
    for calls in ("2", "4", "8"):
        assert second[calls]["nats_per_token"] < first[calls]["nats_per_token"], (calls, first, second)
    assert second["2"]["pair_kl"] < first["2"]["pair_kl"]
