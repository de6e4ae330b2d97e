"""The optimizer, its learning-rate schedule and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.train.sharded import full, local, shard_like, whole


def _constant(progress: float, share: float) -> float:
    return 1.0


def _cosine(progress: float, share: float) -> float:
    """To a tenth of the peak."""
    return 0.1 + 0.45 * (1.0 + math.cos(math.pi * progress))


def _linear(progress: float, share: float) -> float:
    return 1.0 - progress


def _wsd(progress: float, share: float) -> float:
    """Warm-up, stable, decay: constant, then a line to zero over the last `share`."""
    return min(1.0, (1.0 - progress) / share)


DECAYS: dict[str, Callable[[float, float], float]] = {
    "constant": _constant,
    "cosine": _cosine,
    "linear": _linear,
    "wsd": _wsd,
}
MUON_MOMENTUM = 0.95


@dataclass(frozen=True)
class Branch:
    """Where a run left another to be finished: from `step` on the rate falls from `factor` times its peak to zero."""

    step: int
    factor: float


@dataclass(frozen=True)
class Optimizer:
    """AdamW, or Muon for the matrices inside transformer blocks with AdamW for everything else.

    The published recipe is AdamW without weight decay, 2500 steps of linear warm-up from zero (the first step has
    learning rate 0) and a constant rate after it. `decay` replaces the constant by a cosine to 10 %, by a line to zero
    at the end of the run, or, with `wsd`, by a line to zero over the last `decay_share` of the steps after the warm-up:
    until then such a run does not depend on its length, so it can be extended, or branched off to be finished, at any
    checkpoint. `clip` bounds the global gradient norm; `matrix_learning_rate` is Muon's.
    torch's Muon works in bfloat16: under FSDP its weights agree with one process's to that precision only.
    """

    name: Literal["adamw", "muon"] = "adamw"
    learning_rate: float = 3e-4
    matrix_learning_rate: float = 0.02
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    warmup: int = 2500
    decay: Literal["constant", "cosine", "linear", "wsd"] = "constant"
    decay_share: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in BUILDERS:
            raise UserError(f"unknown optimizer {self.name!r}; choose one of {', '.join(BUILDERS)}.")
        if self.decay not in DECAYS:
            raise UserError(f"unknown decay {self.decay!r}; choose one of {', '.join(DECAYS)}.")
        for name in ("learning_rate", "matrix_learning_rate"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} must not be negative, and finite, got {getattr(self, name)}.")
        if not 0.0 < self.decay_share <= 1.0:
            raise UserError(f"decay_share must be above 0 and at most 1, got {self.decay_share}.")
        if not self.clip > 0.0:
            raise UserError(f"clip must be positive (inf for no clipping), got {self.clip}.")

    def factor(self, step: int, steps: int, branch: Branch | None = None) -> float:
        """What multiplies the learning rates at the 0-based `step` of `steps`."""
        if branch is not None:
            return branch.factor * (1.0 - (step - branch.step) / max(1, steps - branch.step))
        if step < self.warmup:
            return step / self.warmup
        return DECAYS[self.decay]((step - self.warmup) / max(1, steps - self.warmup), self.decay_share)

    def build(self, module: nn.Module) -> Optimizers:
        trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not trainable:
            raise UserError("the denoiser has no trainable parameters.")
        return Optimizers(self, trainable, BUILDERS[self.name](self, trainable))


class Optimizers:
    """One or two torch optimizers that step together; their state is stored by parameter name.

    `branch` is set in a run that finishes another.
    """

    def __init__(
        self, options: Optimizer, parameters: dict[str, nn.Parameter], parts: list[torch.optim.Optimizer]
    ) -> None:
        self.options, self.parameters, self.parts = options, parameters, parts
        self.branch: Branch | None = None
        self._peaks = [[group["lr"] for group in part.param_groups] for part in parts]

    def step(self, step: int, steps: int, skip: Tensor | None = None) -> float:
        """Update the weights from their gradients, unless `skip` holds; the AdamW learning rate that was used."""
        factor = self.options.factor(step, steps, self.branch)
        for part, peaks in zip(self.parts, self._peaks):
            for group, peak in zip(part.param_groups, peaks):
                group["lr"] = peak * factor
            if skip is None:
                part.step()
            else:
                _step_unless(part, skip)
        return self.options.learning_rate * factor

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def state_dict(self, gather: bool = True) -> dict[str, dict[str, Tensor]]:
        """Whole (unsharded) tensors on the CPU, by parameter name, or with `gather=False` as they are.

        Every process must call it.
        """
        states = {parameter: state for part in self.parts for parameter, state in part.state.items()}
        return {
            name: {key: full(value) if gather else value for key, value in states[parameter].items()}
            for name, parameter in self.parameters.items()
            if parameter in states
        }

    def empty_state(
        self, shapes: dict[str, tuple[tuple[int, ...], torch.dtype]]
    ) -> dict[str, dict[str, Tensor]]:
        """Room for a state whose entries, named `parameter/key`, have these shapes, split as the parameters are."""
        state: dict[str, dict[str, Tensor]] = {}
        for entry, (shape, dtype) in shapes.items():
            name, _, key = entry.rpartition("/")
            parameter = self.parameters.get(name)
            if parameter is None:
                raise UserError(f"the optimizer state belongs to another network: it names {name}.")
            same = shape == tuple(parameter.shape)
            room = torch.empty_like(parameter, dtype=dtype) if same else torch.empty(shape, dtype=dtype)
            state.setdefault(name, {})[key] = room.detach()
        return state

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        owner = {p: part for part in self.parts for group in part.param_groups for p in group["params"]}
        if unknown := sorted(set(state) - set(self.parameters)):
            raise UserError(f"the optimizer state belongs to another network: it names {unknown[0]}.")
        for name, values in state.items():
            parameter = self.parameters[name]
            if _MARKS[type(owner[parameter])] not in values:
                raise UserError(
                    f"the optimizer state is of another optimizer than {self.options.name}: use the same."
                )
            owner[parameter].state[parameter] = {
                key: shard_like(value, parameter)
                if value.shape == parameter.shape
                else value.to(parameter.device)
                for key, value in values.items()
            }


def _adamw(options: Optimizer, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        list(parameters),
        lr=options.learning_rate,
        betas=options.betas,
        eps=options.eps,
        weight_decay=options.weight_decay,
        fused=True,
    )


def _build_adamw(options: Optimizer, parameters: dict[str, nn.Parameter]) -> list[torch.optim.Optimizer]:
    return [_adamw(options, parameters.values())]


def _build_muon(options: Optimizer, parameters: dict[str, nn.Parameter]) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in parameters.items() if is_block_matrix(name, p)]
    rest = [p for name, p in parameters.items() if not is_block_matrix(name, p)]
    if not matrices:
        raise UserError("Muon needs matrices in transformer blocks, parameters named `blocks.*`: use adamw.")
    muon = torch.optim.Muon(
        matrices, lr=options.matrix_learning_rate, momentum=MUON_MOMENTUM, weight_decay=options.weight_decay
    )
    return [muon, *([_adamw(options, rest)] if rest else [])]


@torch.no_grad()
def _step_unless(part: torch.optim.Optimizer, skip: Tensor) -> None:
    """One step, of which nothing is left where `skip` holds. The device decides, so that nobody waits for it."""
    if isinstance(part, torch.optim.AdamW):
        setattr(part, "found_inf", skip.float())  # noqa: B010  the fused kernel reads it
        part.step()
        return
    mark, changed = _MARKS[type(part)], []
    for parameter in (p for group in part.param_groups for p in group["params"] if p.grad is not None):
        state = part.state[parameter]
        if mark not in state:
            state[mark] = torch.zeros_like(parameter)  # as the optimizer begins
        changed += [local(parameter.detach()), local(state[mark])]
    before = [
        tensor.clone() for tensor in changed
    ]  # when activations are gone: no more memory at the worst moment
    part.step()
    for tensor, old in zip(changed, before):
        tensor.copy_(torch.where(skip, old, tensor))


def is_block_matrix(name: str, parameter: Tensor) -> bool:
    """Muon's share: two-dimensional weights below a module list `blocks`, except the adaLN modulation.

    Embeddings and the head lie outside the blocks; the modulation maps a conditioning vector, not activations.
    """
    path = name.split(".")
    return "blocks" in path[:-1] and parameter.ndim == 2 and "adaLN" not in name


_MARKS: dict[type, str] = {torch.optim.AdamW: "exp_avg", torch.optim.Muon: "momentum_buffer"}
BUILDERS = {"adamw": _build_adamw, "muon": _build_muon}


@torch.no_grad()
def normalise_and_clip(parameters: Iterable[nn.Parameter], scale: Tensor | float, clip: float) -> Tensor:
    """Multiply all gradients by `scale`, then clip their global norm; the norm before clipping, in float64.

    One pass over the gradients does both, and nothing waits for the device. Sharded gradients work: the norm is of the
    whole tensors.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm(gradients)).double() * scale
    factor = scale * (clip / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([local(g) for g in gradients], factor.to(gradients[0].dtype))
    return norm
