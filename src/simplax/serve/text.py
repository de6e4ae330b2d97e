"""Requests about text: prompts to go on with, gaps to fill in."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.pretrained.model import Model
from simplax.pretrained.prompts import Clamped, infilling, prompts
from simplax.samplers import LeftToRight
from simplax.samplers.batches import seeds_for
from simplax.serve.engine import Job
from simplax.serve.plans import Clock, Plan
from simplax.serve.schemas import TextRequest
from simplax.serve.served import Served
from simplax.viz.trajectory import word

_SHOWN = 5  # likeliest tokens of a position


def plan(served: Served, asked: TextRequest) -> Plan:
    model = served.model
    gaps = "<gap:" in asked.text
    clamped = (infilling if gaps else prompts)(model, [asked.text] * asked.num)
    conditional = bool(clamped.given.any())
    sampling = served.sampling(asked, conditional=conditional)
    if isinstance(sampling.sampler, LeftToRight) and bool(
        (clamped.given[:, 1:] & ~clamped.given[:, :-1]).any()
    ):
        raise UserError("this model writes from left to right: give it a prompt, without gaps inside.")
    clock, start = Clock(model, sampling), clamped.start
    lengths = clamped.lengths or _lengths(model, asked, clamped)
    ends = clamped.stops if gaps else lengths or [model.config.task.length] * asked.num
    spell = lru_cache(maxsize=None)(lambda number: word(model, number))

    def work(job: Job, shared: Model) -> dict[str, Any]:
        before: list[list[int]] = [[-1] * end for end in ends]

        def watch(step: int, tokens: Tensor) -> None:
            now = [row[:end] for row, end in zip(tokens.tolist(), ends)]
            changed = [[i for i, (a, b) in enumerate(zip(*pair)) if a != b] for pair in zip(before, now)]
            belief = _belief(job.logits, changed[0], spell) if asked.belief and step else None
            cells = [[[i, spell(row[i])] for i in places] for row, places in zip(now, changed)]
            before[:] = now
            job.emit("step", {**clock.at(step), "changed": cells, "belief": belief})

        drawn = shared.sample(
            asked.num,
            num_steps=sampling.num_steps,
            seeds=asked.seed,
            temperature=asked.temperature,
            top_p=asked.top_p,
            tokens=clamped.tokens,
            given=clamped.given,
            lengths=lengths,
            sampler=sampling.sampler,
            watch=watch,
        )
        return {
            **_texts(model, drawn.tokens.tolist(), clamped, ends),
            "steps": drawn.num_steps,
            "calls": drawn.nfe,
        }

    first = {
        "model": served.name,
        "steps": sampling.steps,
        "length": max(ends),
        "given": [i for i in range(start, ends[0]) if clamped.given[0, i]],
        "start": start,
        "num": asked.num,
    }
    return Plan(model, asked.num, first, work)


def _lengths(model: Model, asked: TextRequest, clamped: Clamped) -> list[int] | None:
    """How long each sequence will be, where the model must be told."""
    chosen = model.lengths_for(seeds_for(asked.seed, asked.num), given=clamped.given)
    return None if chosen is None else chosen.tolist()


def _texts(model: Model, rows: list[list[int]], clamped: Clamped, ends: list[int]) -> dict[str, Any]:
    tokenizer = model.tokenizer
    assert tokenizer is not None
    return {
        "texts": [tokenizer.decode(row[clamped.start : end]) for row, end in zip(rows, ends)],
        "gaps": [
            [tokenizer.decode(row[begin:end]) for begin, end in holes]
            for row, holes in zip(rows, clamped.gaps)
        ],
    }


def _belief(logits: Tensor | None, places: list[int], spell: Any) -> list[list[Any]] | None:
    """The likeliest tokens, in thousandths, where the first sequence has just changed."""
    if logits is None or not places or max(places) >= logits.shape[1]:
        return None
    top = torch.softmax(logits[0, places].float(), dim=-1).topk(min(_SHOWN, logits.shape[2]), dim=-1)
    return [
        [place, [[spell(number), round(1000 * chance)] for number, chance in zip(ids, chances)]]
        for place, ids, chances in zip(places, top.indices.tolist(), top.values.tolist())
    ]
