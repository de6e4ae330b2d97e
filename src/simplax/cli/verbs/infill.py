"""`simplax infill MODEL TEXT...`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from simplax.cli.output import check_targets, emit, first_process, say
from simplax.cli.parsing import Device, Json, ModelName, Weights, run
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    Eta,
    Guidance,
    LabelValues,
    SamplerName,
    Steps,
    Temperature,
    TimePower,
    read_eta,
    read_labels,
)
from simplax.errors import UserError
from simplax.io.progress import progress


def main(arguments: list[str]) -> None:
    run(infill, arguments, "simplax infill")


def infill(
    model: ModelName,
    texts: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="TEXT", help="text with <gap:8> wherever eight tokens are to be filled in"),
    ] = (),
    /,
    *,
    file: Annotated[Path | None, tyro.conf.arg(help="a text per line; - for standard input")] = None,
    num: Annotated[int, tyro.conf.arg(help="how many answers for each text")] = 1,
    steps: Steps = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Temperature = None,
    top_p: Annotated[float | None, tyro.conf.arg(help="nucleus of each prediction")] = None,
    seed: Annotated[int, tyro.conf.arg(help="of the first answer; the others follow")] = 0,
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
    """Fill in the gaps of texts; every other token stays as it is. Options that are not given have the model's own
    default."""
    from simplax.cli.verbs.sample import print_rows, record
    from simplax.config.run import encode
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for
    from simplax.pretrained.prompts import infilling

    prompts = [*texts, *(_lines(file) if file is not None else ())]
    if not prompts:
        raise UserError('give a text with gaps, as in "four <gap:4> and seven", or --file with one per line.')
    if num < 1:
        raise UserError(f"--num must be at least 1, got {num}.")
    concentration, described = read_eta(eta), read_labels(labels)
    check_targets(html)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype, compile=compile))
    clamped = infilling(loaded, [text for text in prompts for _ in range(num)])
    conditional = bool(clamped.given.any())  # a text may be all gap
    used = loaded.sampler(concentration, time_power=time_power, conditional=conditional)
    with progress("sampling", len(clamped.tokens)) as done:
        drawn = loaded.sample(
            len(clamped.tokens),
            num_steps=steps,
            seeds=seed,
            temperature=temperature,
            top_p=top_p,
            tokens=clamped.tokens,
            given=clamped.given,
            lengths=clamped.lengths,
            eta=concentration,
            time_power=time_power,
            labels=described,
            guidance=guidance,
            batch_size=batch_size_for(loaded, batch_size, len(clamped.tokens)),
            trajectory=html is not None,
            progress=done,
        )
    assert loaded.tokenizer is not None
    rows = []
    for number, ids in enumerate(drawn.tokens.tolist()):
        rows.append(
            {
                "seed": int(drawn.seeds[number]),
                "asked": prompts[number // num],
                "text": loaded.tokenizer.decode(ids[clamped.start : clamped.stops[number]]),
                "gaps": [loaded.tokenizer.decode(ids[begin:end]) for begin, end in clamped.gaps[number]],
                "tokens": ids,
            }
        )
    if html is not None:
        from simplax.viz.trajectory import write_page

        if first_process():
            write_page(html, loaded, drawn, clamped.given, clamped.stops)
        say(f"the denoising is in {html}")
    if format == "jsonl" and not json:
        print_rows(rows)
        return
    facts = record(loaded, drawn, used, temperature, top_p, given="text with gaps", conditional=conditional)
    facts |= {"labels": described, "guidance": guidance}
    if conditional and not clamped.given.any(-1).all() and loaded.config.unconditional is not None:
        facts["unconditional"] = encode(loaded.config.unconditional)  # how texts that are all gap were filled
    emit(json, {"samples": rows, "manifest": facts}, lambda: "\n".join(str(row["text"]) for row in rows))


def _lines(file: Path) -> list[str]:
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    return [line for line in text.splitlines() if line.strip()]
