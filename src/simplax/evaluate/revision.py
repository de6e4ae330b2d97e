"""How a sampler revises what it wrote: edits per step, mistakes made and taken back, and when an answer settles.

States `z` and decoded predictions `d` come from a trajectory. Edits are compared with those of the exact reverse chain
of uniform noise, which changes a position in a step from t to s with chance (1 - alpha_t/alpha_s)(1 - 1/K).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simplax.concentration import Concentration
from simplax.errors import UserError
from simplax.nn.network import Network
from simplax.pretrained.model import Model
from simplax.processes.prediction import Prediction
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.samplers import Sampler, Samples
from simplax.typing import Batch

AGREE = 5
"""Calls in a row that must decode to the same before an answer counts as settled."""


@dataclass(frozen=True, eq=False)
class Revision:
    """Measures per step (lists over the steps), and of whole paths.

    `edits` counts changed positions per sequence, `multiple` is that in units of the exact chain's. `retention` is the
    share of right positions that a step leaves right, `correction` the share of wrong ones it makes right; NaN (None in
    JSON) where there were none. `solved` is the share of sequences whose decoded prediction is right everywhere.
    Where the truth is not known all but the edits and the settling are None.
    """

    edits: list[float]
    multiple: list[float] | None
    right_to_wrong: list[float] | None
    wrong_to_right: list[float] | None
    wrong_to_wrong: list[float] | None
    retention: list[float] | None
    correction: list[float] | None
    solved: list[float] | None
    solved_then_lost: float | None
    first_solved: float | None
    settle_step: float | None
    settled_and_stayed: float | None
    settled_and_wandered: float | None
    never_settled: float | None

    def to_json(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Any) -> Any:
    """Rounded to what is meaningful, and None for what has no value."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value is None or np.isnan(value) else round(float(value), 6)


def expected_edits(process: Any, times: Tensor) -> np.ndarray | None:
    """(steps,) the chance that the exact reverse chain changes a position; None where the noise is not uniform."""
    if not isinstance(process, UniformProcess) or process.prior.probs is not None:
        return None
    alpha = process.schedule.alpha(times.double())
    chance = (1 - alpha[:-1] / alpha[1:]) * (1 - 1 / process.size)
    return np.asarray(chance.numpy())


def measure(
    states: np.ndarray,
    free: np.ndarray,
    *,
    decoded: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    expected: np.ndarray | None = None,
) -> Revision:
    """Of paths `states` (steps + 1, number, length) with `decoded` (steps, number, length); `free` (number, length)
    says which positions are the sampler's to fill in."""
    edits = ((states[1:] != states[:-1]) & free).sum(2).mean(1)
    positions = max(float(free.sum(1).mean()), 1.0)
    flows: dict[str, Any] = dict.fromkeys(
        ("right_to_wrong", "wrong_to_right", "wrong_to_wrong", "retention", "correction")
    )
    if truth is not None:
        flows = _flows(states, free, truth)
    return Revision(
        edits=edits.tolist(),
        multiple=None if expected is None else (edits / positions / expected).tolist(),
        **flows,
        **_answers(decoded, free, truth),
    )


def _flows(states: np.ndarray, free: np.ndarray, truth: np.ndarray) -> dict[str, list[float]]:
    """Between right and wrong, per sequence and step."""
    right, changed = states == truth, states[1:] != states[:-1]
    before, after = right[:-1] & free, right[1:] & free
    lost = (before & ~after).sum(2).mean(1)
    won = (~before & after).sum(2).mean(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "right_to_wrong": lost.tolist(),
            "wrong_to_right": won.tolist(),
            "wrong_to_wrong": (changed & free & ~right[:-1] & ~right[1:]).sum(2).mean(1).tolist(),
            "retention": (1 - lost / before.sum(2).mean(1)).tolist(),
            "correction": (won / (free & ~right[:-1]).sum(2).mean(1)).tolist(),
        }


def _answers(decoded: np.ndarray | None, free: np.ndarray, truth: np.ndarray | None) -> dict[str, Any]:
    """What became of the decoded predictions."""
    names = ("solved", "solved_then_lost", "first_solved", "settle_step", "settled_and_stayed")
    result: dict[str, Any] = dict.fromkeys((*names, "settled_and_wandered", "never_settled"))
    if decoded is None:
        return result
    if truth is not None:
        right = ((decoded == truth) | ~free).all(2)  # (steps, number)
        ever = right.any(0)
        result["solved"] = right.mean(1).tolist()
        result["solved_then_lost"] = float((ever & ~right[-1]).mean())
        result["first_solved"] = float(right.argmax(0)[ever].mean() + 1) if ever.any() else float("nan")
    same = ((decoded[1:] == decoded[:-1]) | ~free).all(2)  # (steps - 1, number)
    last = np.where(same.all(0), 0, len(same) - same[::-1].argmin(0))
    result["settle_step"] = float(last.mean() + 1)
    streak, reached = np.zeros(same.shape[1], int), np.full(same.shape[1], -1)
    for step, agrees in enumerate(same):
        streak = np.where(agrees, streak + 1, 0)
        reached = np.where((reached < 0) & (streak >= AGREE - 1), step, reached)
    settled = reached >= 0
    result["settled_and_stayed"] = float((settled & (last <= reached)).mean())
    result["settled_and_wandered"] = float((settled & (last > reached)).mean())
    result["never_settled"] = float((~settled).mean())
    return result


@torch.no_grad()
def kept_and_resampled(
    predict: Callable[[Tensor, Tensor], Tensor],
    process: UniformProcess,
    tokens: Tensor,
    free: Tensor,
    t: float,
    keys: Keys,
) -> dict[str, float]:
    """Accuracy at time t where noise kept a token and where it drew another, of x_hat's arg-max and the posterior's.

    A perfect leave-one-out prediction is equally good at both, for it never sees the token: whether that one was kept
    is independent of all it sees. Its raw arg-max must therefore rewrite tokens that were right; that of the posterior
    need not. `edits` is the share of free positions that an arg-max changes, `difference` kept minus resampled.
    """
    time = torch.full((len(tokens),), t, dtype=torch.float64, device=tokens.device)
    alpha = process.alpha(time)
    u = keys.uniform(2, tokens.shape[1])
    kept = (u[:, 0] < alpha) | ~free
    z = torch.where(kept, tokens, process.prior.draw(u[:, 1]))
    prediction = Prediction(predict(z, time))
    result: dict[str, float] = {}
    for name, decoded in (
        ("raw", process.greedy(z, prediction)),
        ("posterior", process.likeliest(z, prediction, time)),
    ):
        right = decoded == tokens
        result[f"{name}_kept"] = _share(right, kept & free)
        result[f"{name}_resampled"] = _share(right, ~kept)
        result[f"{name}_difference"] = result[f"{name}_kept"] - result[f"{name}_resampled"]
        result[f"{name}_edits"] = _share(decoded != z, free)
    return result


def _share(what: Tensor, where: Tensor) -> float:
    return float((what & where).sum() / where.sum()) if bool(where.any()) else float("nan")


def own_evidence(
    model: Model,
    tokens: Tensor,
    given: Tensor,
    *,
    attend: Tensor | None = None,
    times: tuple[float, ...] = (0.1, 0.3, 0.5),
    seed: int = 0,
) -> list[dict[str, float | None]]:
    """`kept_and_resampled` of a model on sequences it should know, one row per time; empty where noise is not uniform.

    The network is called once on every state, with an empty carry.
    """
    process = model.method.process(model.denoiser)
    if not isinstance(process, UniformProcess):
        return []
    tokens, given = tokens.to(model.device), given.to(model.device)
    attend = None if attend is None else attend.to(model.device)
    batch, network = Batch.of(tokens, given, attend), Network.of(model.denoiser.eval())
    keys = Keys.from_seeds(torch.arange(len(tokens))).to(model.device)

    def predict(z: Tensor, t: Tensor) -> Tensor:
        return network(z, t, batch).logits

    rows = []
    for t in times:
        found = kept_and_resampled(predict, process, tokens, ~given, t, keys.stream("revision", seed))
        rows.append({"t": t, **{name: _plain(value) for name, value in found.items()}})
    return rows


def of_model(
    model: Model,
    num: int,
    *,
    hide: float = 0.5,
    num_steps: int | None = None,
    eta: float | Concentration | None = None,
    time_power: float | None = None,
    temperature: float | None = None,
    seed: int = 0,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> tuple[dict[str, Any], Samples, Sampler[Any]]:
    """The measures on `num` validation sequences, the samples and the sampler they were made with.

    Where the task gives no positions, a share `hide` of them is filled in again and all others are given.
    """
    if num < 1 or not 0 < hide <= 1:
        raise UserError(f"hide a share above 0 and at most 1 of at least one sequence, got {hide} of {num}.")
    batch = model.config.task.validation().batch(torch.arange(num))
    tokens = batch.tokens
    given = batch.given
    if not bool(given.any()):
        given = Keys.from_seeds(torch.arange(num)).stream("hide", seed).uniform(tokens.shape[1]) >= hide
    attend = torch.ones_like(given) if batch.attend is None else batch.attend
    sampler = model.sampler(eta, time_power=time_power)
    drawn = model.sample(
        num,
        num_steps=num_steps,
        seeds=torch.arange(num) + (seed << 32),
        temperature=temperature,
        tokens=tokens,
        given=given,
        sampler=sampler,
        lengths=None if batch.attend is None else attend.sum(-1),
        batch_size=batch_size,
        trajectory=True,
        progress=progress,
    )
    assert drawn.trajectory is not None
    free = ~given & attend
    measured = measure(
        drawn.trajectory.cpu().numpy(),
        free.numpy(),
        decoded=None if drawn.decoded is None else drawn.decoded.cpu().numpy(),
        truth=tokens.numpy(),
        expected=expected_edits(model.method.process(model.denoiser), drawn.times),
    ).to_json()
    evidence = own_evidence(model, tokens, ~free, attend=batch.attend)
    return {**measured, "own_evidence": evidence}, drawn, sampler
