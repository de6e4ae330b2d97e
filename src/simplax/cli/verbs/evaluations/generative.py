"""`simplax evaluate MODEL generative`."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from simplax.cli.output import announce, check_targets, emit
from simplax.cli.parsing import Device, Json, ModelName, Weights
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    Eta,
    Guidance,
    LabelValues,
    SamplerName,
    Seed,
    Steps,
    Temperature,
    read_eta,
    read_labels,
)
from simplax.cli.verbs.evaluations.record import Out, keep
from simplax.cli.verbs.frontier import Data, ScorerName, TopP, human_text, rich_table
from simplax.io.progress import progress


def evaluate(
    model: ModelName,
    /,
    *,
    scorer: ScorerName = "smollm2",
    num: Annotated[int, tyro.conf.arg(help="how many sequences")] = 128,
    steps: Steps = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    labels: LabelValues = (),
    guidance: Guidance = None,
    seed: Seed = 0,
    data: Data = None,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    out: Out = None,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Perplexity, entropy and the columns that reveal degenerate text, of sequences drawn at one setting.

    Human text and rows that have learned nothing are measured beside them. One setting says little: a lower temperature
    lowers perplexity and entropy together, so compare models with `simplax frontier`.
    """
    import numpy as np
    import torch

    from simplax.errors import UserError
    from simplax.evaluate.cost import sampling_cost
    from simplax.evaluate.frontier.entrants import check, draw
    from simplax.evaluate.frontier.yardstick import Yardstick
    from simplax.evaluate.text import load_scorer
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for

    if seed < 0:
        raise UserError(f"the seed must not be negative, got {seed}.")
    concentration, described = read_eta(eta), read_labels(labels)
    check_targets(out)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype, compile=compile))
    prepared = human_text(loaded, data)
    check(loaded, prepared, loaded.config.name)
    judge = load_scorer(scorer, device=device)
    yardstick = Yardstick(prepared, judge, num, seed)
    used = loaded.sampler(concentration, conditional=False)
    cost = announce(
        sampling_cost(loaded, num, sampler=used, num_steps=steps, batch_size=batch_size, guidance=guidance)
    )
    with progress("sampling", num) as done:
        drawn = draw(
            loaded,
            num=num,
            num_steps=steps,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            eta=concentration,
            labels=described,
            guidance=guidance,
            batch_size=batch_size_for(loaded, batch_size, num),
            progress=done,
        )
    with progress("scoring human text", len(yardstick.held_out)) as done:
        yardstick.reference(done)
    rows: list[dict[str, Any]] = [{"kind": "data", "row": "data", **yardstick.human()}]
    for name, control in yardstick.controls.items():
        with progress(f"scoring {name}", num) as done:
            measured = yardstick.measure(control.ids, done)
        rows.append({"kind": "control", "row": name, "note": control.note, **measured})
    with progress("scoring samples", num) as done:
        own = yardstick.measure(torch.from_numpy(drawn.ids.astype(np.int64)), done)
    defaults = loaded.defaults(conditional=False)
    result = {
        **drawn.work(),
        "seconds": drawn.seconds,
        **{name: value for name, value in own.items() if name != "per_sample"},
        "data": rows[0],
        "controls": [
            {name: value for name, value in row.items() if name not in ("per_sample", "text")}
            for row in rows[1:]
        ],
    }
    record = manifest(
        loaded,
        sampler=used,
        num_steps=drawn.num_steps,
        **drawn.work(),
        seeds=range(seed, seed + num),
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        labels=described,
        guidance=guidance,
        evaluation="generative",
        measured_with=yardstick.identity,
        result=result,
    )
    written = keep(record, "generative", model, out)
    shown = [*rows, {"kind": "own", "row": loaded.config.name, **own}]
    answer = {**result, "manifest": record, "written": written, "cost": cost}
    emit(json, answer, lambda: _shown(shown, judge.name, written))


def _shown(rows: list[dict[str, Any]], scorer: str, written: str | None) -> Any:
    from rich.console import Group
    from rich.text import Text

    from simplax.evaluate.frontier.tables import set_table, summary

    about = Text(f"Perplexity under {scorer}. {summary(rows)}\n")
    return Group(about, rich_table(set_table(rows)), Text("" if written is None else f"\n{written}"))
