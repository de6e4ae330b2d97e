"""Requests about molecules: strings from noise, drawn as soon as they can be read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch import Tensor

from simplax.pretrained.model import Model
from simplax.samplers.batches import seeds_for
from simplax.serve.engine import Job
from simplax.serve.plans import Clock, Plan
from simplax.serve.schemas import MoleculesRequest
from simplax.serve.served import Served
from simplax.viz.structures import can_draw, structure


def plan(served: Served, asked: MoleculesRequest) -> Plan:
    model = served.model
    sampling = served.sampling(asked, conditional=False)
    clock = Clock(model, sampling)
    lengths = model.lengths_for(seeds_for(asked.seed, asked.num))
    can_read = can_draw()
    draw = lru_cache(maxsize=256)(structure if can_read else lambda text: None)

    def work(job: Job, shared: Model) -> dict[str, Any]:
        def watch(step: int, tokens: Tensor) -> None:
            strings = model.decode(tokens.cpu(), lengths)
            job.emit(
                "step",
                {**clock.at(step), "strings": strings, "structures": [draw(text) for text in strings]},
            )

        drawn = shared.sample(
            asked.num,
            num_steps=sampling.num_steps,
            seeds=asked.seed,
            temperature=asked.temperature,
            top_p=asked.top_p,
            sampler=sampling.sampler,
            lengths=lengths,
            watch=watch,
        )
        strings = model.decode(drawn.tokens.cpu(), lengths)
        pictures = [draw(text) for text in strings]
        return {
            "strings": strings,
            "valid": [picture is not None if can_read else None for picture in pictures],
            "structures": pictures,
            "steps": drawn.num_steps,
            "calls": drawn.nfe,
        }

    start = {"model": served.name, "steps": sampling.steps, "num": asked.num, "drawings": can_read}
    return Plan(model, asked.num, start, work)
