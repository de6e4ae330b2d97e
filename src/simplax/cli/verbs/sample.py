"""`simplax sample MODEL`."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli.output import announce, check_targets, emit, first_process, say
from simplax.cli.parsing import Device, Json, ModelName, Weights, run
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    Eta,
    Guidance,
    LabelValues,
    Loops,
    SamplerName,
    TimePower,
    read_eta,
    read_labels,
)
from simplax.errors import UserError
from simplax.io.progress import progress

if TYPE_CHECKING:
    from simplax.pretrained.model import Model
    from simplax.samplers import Sampler, Samples


def main(arguments: list[str]) -> None:
    run(sample, arguments, "simplax sample")


def sample(
    model: ModelName,
    /,
    *,
    num: Annotated[int, tyro.conf.arg(help="how many sequences")] = 4,
    num_steps: Annotated[int | None, tyro.conf.arg(aliases=["--steps"], help="steps of the sampler")] = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Annotated[float | None, tyro.conf.arg(help="divides the logits")] = None,
    top_p: Annotated[float | None, tyro.conf.arg(help="nucleus of each prediction")] = None,
    loops: Loops = None,
    seed: Annotated[int, tyro.conf.arg(help="of the first sequence; the others follow")] = 0,
    prompt: Annotated[str | None, tyro.conf.arg(help="text that every sequence begins with")] = None,
    given: Annotated[bool, tyro.conf.arg(help="clamp the given positions of validation sequences")] = False,
    lengths: Annotated[
        int | None,
        tyro.conf.arg(help="tokens of every sequence, where lengths are known; as in the data if not given"),
    ] = None,
    labels: LabelValues = (),
    guidance: Guidance = None,
    format: Annotated[Literal["text", "jsonl"], tyro.conf.arg(help="what is printed")] = "text",
    html: Annotated[Path | None, tyro.conf.arg(help="write a page that plays the denoising")] = None,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw sequences from a model. Options that are not given have the model's own default."""
    from simplax.evaluate.cost import sampling_cost
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for
    from simplax.pretrained.prompts import prompts

    if prompt is not None and given:
        raise UserError("--prompt and --given contradict each other: give one of them.")
    concentration, described = read_eta(eta), read_labels(labels)
    check_targets(html)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype, compile=compile))
    prompted = prompts(loaded, [prompt] * num) if prompt is not None else None
    clamped: Any = loaded.config.task.held_out_batch(num) if given else prompted
    free = clamped is None or not bool(clamped.given.any())
    if given and free:
        raise UserError("the validation sequences of this model have no given positions: leave out --given.")
    used = loaded.sampler(concentration, time_power=time_power, conditional=not free)
    held = None if clamped is None else (clamped.tokens, clamped.given)
    cost = announce(
        sampling_cost(
            loaded,
            num,
            sampler=used,
            num_steps=num_steps,
            batch_size=batch_size,
            held=held,
            guidance=guidance,
            loops=loops,
        )
    )
    with progress("sampling", num) as done:
        drawn = loaded.sample(
            num,
            num_steps=num_steps,
            seeds=seed,
            temperature=temperature,
            top_p=top_p,
            tokens=None if clamped is None else clamped.tokens,
            given=None if clamped is None else clamped.given,
            eta=concentration,
            time_power=time_power,
            lengths=lengths,
            loops=loops,
            labels=described,
            guidance=guidance,
            batch_size=batch_size_for(loaded, batch_size, num),
            trajectory=html is not None,
            progress=done,
        )
    if html is not None:
        from simplax.viz.trajectory import write_page

        if first_process():
            write_page(html, loaded, drawn, None if clamped is None else clamped.given)
        say(f"the denoising is in {html}")
    texts = loaded.decode(drawn.tokens.cpu(), drawn.lengths)
    columns = zip(drawn.seeds.tolist(), texts, drawn.tokens.tolist())
    rows = [{"seed": number, "text": text, "tokens": ids} for number, text, ids in columns]
    if format == "jsonl" and not json:
        print_rows(rows)
        return
    source = "validation" if given else None if prompt is None else f"prompt {prompt!r}"
    facts = record(loaded, drawn, used, temperature, top_p, given=source, conditional=not free)
    facts |= {"labels": described, "guidance": guidance}
    facts["loops"] = loaded.config.sampling.loops if loops is None else loops
    emit(json, {"samples": rows, "manifest": facts, "cost": cost}, lambda: "\n".join(texts))


def print_rows(rows: Iterable[dict[str, Any]]) -> None:
    """One JSON object per line; first process only."""
    for row in rows if first_process() else ():
        print(json_module.dumps(row, ensure_ascii=False))


def record(
    model: Model,
    drawn: Samples,
    sampler: Sampler[Any],
    temperature: float | None,
    top_p: float | None,
    given: str | None,
    conditional: bool,
) -> dict[str, Any]:
    """The manifest of samples."""
    from simplax.pretrained.manifest import manifest

    defaults = model.defaults(conditional=conditional)
    return manifest(
        model,
        sampler=sampler,
        num_steps=drawn.num_steps,
        **drawn.work(),
        seeds=drawn.seeds.tolist(),
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        given=given,
    )
