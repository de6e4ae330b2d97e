"""`simplax evaluate MODEL revision`."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from simplax.cli.output import check_targets, emit, table
from simplax.cli.parsing import Device, Json, ModelName, Weights
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Dtype,
    Eta,
    SamplerName,
    Seed,
    Steps,
    Temperature,
    TimePower,
    read_eta,
)
from simplax.cli.verbs.evaluations.record import Out, keep
from simplax.io.progress import progress


def evaluate(
    model: ModelName,
    /,
    *,
    num: Annotated[int, tyro.conf.arg(help="validation sequences")] = 64,
    hide: Annotated[
        float, tyro.conf.arg(help="share of positions to fill in again, where the task itself gives none")
    ] = 0.5,
    steps: Steps = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Temperature = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    out: Out = None,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """How a sampler revises what it wrote, on validation sequences some positions of which are filled in again.

    Edits per step in units of the exact chain's, right positions made wrong and wrong ones made right, when answers
    settle, and how much more often the network is right where a token was kept than where it was drawn anew.
    """
    from simplax.evaluate.revision import of_model
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for

    check_targets(out)
    concentration = read_eta(eta)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype))
    with progress("filling in", num) as done:
        measured, drawn, used = of_model(
            loaded,
            num,
            hide=hide,
            num_steps=steps,
            eta=concentration,
            time_power=time_power,
            temperature=temperature,
            seed=seed,
            batch_size=batch_size_for(loaded, batch_size, num),
            progress=done,
        )
    record = manifest(
        loaded,
        sampler=used,
        num_steps=drawn.num_steps,
        nfe=drawn.nfe,
        seeds=[seed],
        temperature=temperature,
        evaluation="revision",
        hide=hide,
        result=[{"num": num, "revision": measured}],
    )
    written = keep(record, "revision", model, out)
    emit(json, {"result": measured, "manifest": record, "written": written}, lambda: _shown(measured))


def _shown(measured: dict[str, Any]) -> Any:
    """A few steps on the way, first and last among them."""
    columns = ("edits", "multiple", "retention", "correction", "solved")
    count = len(measured["edits"])
    steps = sorted({round(share * (count - 1)) for share in (0, 0.25, 0.5, 0.75, 1)})
    rows = [
        [
            str(step + 1),
            *(
                "" if measured[c] is None or measured[c][step] is None else f"{measured[c][step]:.3g}"
                for c in columns
            ),
        ]
        for step in steps
    ]
    return table(
        ["step", "edits", "of the exact chain's", "kept right", "made right", "answers right"], rows, names=1
    )
