"""Models that enter a frontier: what is drawn from them, and the settings that decide it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from simplax.concentration import Concentration
from simplax.config.run import encode
from simplax.data.text import Prepared
from simplax.errors import UserError
from simplax.evaluate.frontier.protocol import Protocol
from simplax.evaluate.frontier.store import Drawn, sampling_code
from simplax.pretrained.model import Model


@dataclass(frozen=True)
class Job:
    """One point of one model: `settings` decide its tokens, `label` and `method` are what tables call it."""

    label: str
    method: str
    num_steps: int
    temperature: float
    settings: dict[str, Any]


def labels(names: Sequence[str]) -> list[str]:
    """The last part of every path; the whole path where that is not enough to distinguish them."""
    short = [Path(name).name or name for name in names]
    chosen = [one if short.count(one) == 1 else name for one, name in zip(short, names)]
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise UserError(f"the model {twice} is named twice: name every model once.")
    return chosen


def name_of(model: Model) -> str:
    """The method's name as the literature spells it."""
    return model.method.facts.title


def check(model: Model, prepared: Prepared, label: str) -> None:
    """Refuse a model whose tokenizer differs from that of the text it is compared with."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise UserError(f"{label} is not a model of text: a frontier needs one.")
    task = model.config.task
    if (task.length, task.vocab_size) != (prepared.length, prepared.vocab_size):
        raise UserError(
            f"{label} makes {task.length} tokens of {task.vocab_size} and the data {prepared.directory} has "
            f"{prepared.length} of {prepared.vocab_size}: name the data it was trained on."
        )
    if tokenizer.to_json() != prepared.tokenizer.to_json():
        raise UserError(
            f"{label} and the data {prepared.directory} have different tokenizers: name the data it was trained on."
        )


def jobs(
    model: Model,
    label: str,
    protocol: Protocol,
    seed: int,
    eta: float | Concentration | None = None,
    top_p: float | None = None,
) -> list[Job]:
    """The points of a model, cheapest first.

    A sampler that leaves no choice, as one that makes a call per position, is measured at its own number of steps only.
    """
    own, sampler = model.defaults(conditional=False), model.sampler(eta, conditional=False)
    fixed = sampler.steps_for(model.config.task.length)
    return [
        Job(
            label,
            name_of(model),
            steps,
            temperature,
            {
                "weights": model.origin.get("sha256"),
                "method": encode(model.method),
                "architecture": encode(model.config.architecture),
                "length": model.config.task.length,
                "categories": model.config.task.vocab_size,
                "sampler": encode(sampler),
                "num_steps": steps,
                **({} if own.loops is None else {"loops": own.loops}),
                "temperature": temperature,
                "top_p": own.top_p if top_p is None else top_p,
                "first_seed": seed,
                "num": protocol.num,
                "device": model.device.type,
                "dtype": model.dtype,
                **({"compiled": True} if model.numerics.compiled else {}),
                "torch": str(torch.__version__),
                "code": sampling_code(model.method, sampler),
            },
        )
        for steps in (protocol.steps if fixed is None else (fixed,))
        for temperature in protocol.temperatures
    ]


def draw(
    model: Model,
    *,
    num: int,
    num_steps: int | None,
    temperature: float | None,
    top_p: float | None,
    seed: int,
    eta: float | Concentration | None = None,
    labels: Mapping[str, Any] | None = None,
    guidance: float | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> Drawn:
    """Sequences of `num` consecutive seeds; `progress` is called with the number done."""
    start = time.perf_counter()
    drawn = model.sample(
        num,
        num_steps=num_steps,
        seeds=seed,
        temperature=temperature,
        top_p=top_p,
        eta=eta,
        labels=labels,
        guidance=guidance,
        batch_size=batch_size,
        progress=progress,
    )
    seconds = time.perf_counter() - start
    return Drawn(drawn.tokens.cpu().numpy(), num_steps=drawn.num_steps, seconds=seconds, **drawn.work())
