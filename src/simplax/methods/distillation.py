"""Discrete consistency distillation (Sahoo et al. 2025, The Diffusion Duality): few-step students of uniform diffusion.

The arg-max of a Gaussian diffusion is a uniform one, and a path of the Gaussian with fixed noise gives a path of
tokens. Which path that is needs no Gaussian: the noise decides one rival for each token, and when the rival overtakes
it; that happens once, at a time whose law the marginals fix (`paths`). A student is shown the later of two tokens of
such a path and learns what its teacher says about the earlier one, a step nearer to the data. In rounds the student's
average becomes the teacher, and the step doubles.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.nn import Network, attribute, inner
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext

TEACHER = "teacher"
"""The attribute of a denoiser that holds its teacher while it is distilled."""


@dataclass(frozen=True)
class Distillation:
    """Train a few-step student of the model that a run starts from; the published settings are the defaults."""

    steps: int = 512
    """the first round's step between student and teacher is 1/steps; it doubles with every round"""
    round_steps: int = 10_000
    """optimizer steps after which the student becomes the teacher"""
    divergence: Literal["backward", "forward"] = "backward"
    """backward: KL(student || teacher); forward: KL(teacher || student)"""
    teacher: Literal["average", "weights"] = "average"
    """what of the student becomes the teacher: the average of its weights, or the last ones"""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.round_steps < 1:
            raise ValueError("steps and round_steps of a distillation must be at least 1")
        if self.divergence not in DIVERGENCES:
            raise ValueError(f"unknown divergence {self.divergence!r}: choose backward or forward")
        if self.teacher not in ("average", "weights"):
            raise ValueError(f"unknown teacher {self.teacher!r}: choose average or weights")

    def step_length(self, step: int) -> float:
        """The time between student and teacher at an optimizer step: 2^round / steps, at most all of it."""
        return min(1.0, 2.0 ** min(step // self.round_steps, 62) / self.steps)

    def ends_round(self, step: int) -> bool:
        return (step + 1) % self.round_steps == 0


def paths(x: Tensor, alphas: tuple[Tensor, ...], size: int, keys: Keys) -> tuple[Tensor, ...]:
    """Tokens at several noise levels along one path each: the arg-max of Gaussian paths with the same noise.

    A clean token leads e_x by mu = a / s over its noise, so it wins while mu exceeds the gap between the largest of the
    K - 1 other noises and its own. The gap has one value for a path, and the chance of winning is known:
    alpha + (1 - alpha) / K. So with u, the gap's rank, uniform, the token is itself while u is below that, and the
    owner of the largest other noise, any other category alike, afterwards.
    """
    u = keys.stream("gap").uniform(*x.shape[1:])
    rival = (x + 1 + keys.stream("rival").randint(size - 1, *x.shape[1:])) % size
    return tuple(torch.where(u < alpha + (1 - alpha) / size, x, rival) for alpha in alphas)


def _backward(student: Tensor, teacher: Tensor) -> Tensor:
    return (student.exp() * (student - teacher)).sum(-1)


def _forward(student: Tensor, teacher: Tensor) -> Tensor:
    return (teacher.exp() * (teacher - student)).sum(-1)


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"backward": _backward, "forward": _forward}


def distillation_loss(
    settings: Distillation,
    process: UniformProcess,
    times: TimeLaw,
    denoiser: nn.Module | Network,
    batch: Batch,
    context: StepContext,
) -> Loss:
    """KL between the student at z_t and its teacher at z_s, s = t - step, per token."""
    teacher: Any = attribute(inner(denoiser), TEACHER)
    if teacher is None:
        raise ValueError("a distillation needs a teacher: train from a model, or call attach_teacher first")
    length, x = settings.step_length(context.step), batch.tokens
    t = (times(context.u) + length).clamp(max=times.high)
    s = (t - length).clamp(min=times.low)
    pair = paths(x, (process.alpha(t), process.alpha(s)), process.size, context.keys.stream("corrupt"))
    z_t, z_s = (torch.where(batch.given, x, z) for z in pair)
    with torch.no_grad():
        target = Network.of(teacher.eval())(z_s, s, batch).logits.log_softmax(-1)
    student = Network.of(denoiser)(z_t, t, batch, context).logits.log_softmax(-1)
    return Loss.of(DIVERGENCES[settings.divergence](student, target), batch)


def attach_teacher(denoiser: nn.Module) -> None:
    """Give a denoiser a frozen copy of itself, which its checkpoints hold too; one that it has stays."""
    if getattr(denoiser, TEACHER, None) is not None:
        return
    if not all(parameter.requires_grad for parameter in denoiser.parameters()):
        raise UserError("distillation trains all weights: leave out lora, or merge the adapters first.")
    setattr(denoiser, TEACHER, copy.deepcopy(denoiser).eval().requires_grad_(False))


def detach_teacher(denoiser: nn.Module) -> None:
    if hasattr(denoiser, TEACHER):
        delattr(denoiser, TEACHER)


@torch.no_grad()
def renew_teacher(denoiser: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Make the teacher a copy of a student's state."""
    for name, place in getattr(denoiser, TEACHER).state_dict().items():
        place.copy_(state[name])


def without_teacher(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries of a state that are the network's own."""
    return {name: value for name, value in state.items() if not name.startswith(f"{TEACHER}.")}
