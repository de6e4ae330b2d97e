"""`simplax evaluate MODEL guidance`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import check_targets, emit, table
from simplax.cli.parsing import Device, Json, ModelName, Weights
from simplax.cli.sampling import BatchSize, LabelValues, Seed, Steps, Temperature, read_labels
from simplax.cli.verbs.evaluations.record import Out, keep
from simplax.io.progress import progress


def evaluate(
    model: ModelName,
    /,
    *,
    labels: LabelValues = (),
    strengths: Annotated[
        tuple[float, ...], tyro.conf.arg(help="strengths of guidance: 0 without the label, 1 as trained")
    ] = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0),
    num: Annotated[int, tyro.conf.arg(help="how many strings at each strength")] = 1024,
    steps: Steps = None,
    temperature: Temperature = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    figure: Annotated[
        Path | None, tyro.conf.arg(help="image file; without an ending both .png and .svg are written")
    ] = None,
    out: Out = None,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Molecules drawn with a label at several strengths of guidance: their properties, and what is left.

    Novel molecules are valid, distinct and not trained on; the means are theirs. Every strength but 0 and 1 makes two
    network calls per step.
    """
    from simplax.errors import UserError
    from simplax.evaluate.molecules.guided import guided_row
    from simplax.evaluate.molecules.strings import molecules_task
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for
    from simplax.viz.figures import both_formats, image

    described = read_labels(labels)
    if described is None:
        raise UserError("say what molecules should be like: --label NAME=VALUE, as in --label qed=high.")
    if not strengths or num < 1:
        raise UserError("give at least one strength and a number of at least 1.")
    files = [] if figure is None else [image(path) for path in both_formats(figure)]
    check_targets(out, *files)
    loaded = from_pretrained(model, weights=weights, device=device)
    task = molecules_task(loaded)
    source: Any = task.train()
    train = set(task.smiles.decode(source.rows.tolist()))
    rows = []
    for strength in strengths:
        with progress(f"strength {strength:g}", num) as done:
            drawn = loaded.sample(
                num,
                num_steps=steps,
                seeds=seed,
                temperature=temperature,
                labels=described,
                guidance=strength,
                batch_size=batch_size_for(loaded, batch_size, num),
                progress=done,
            )
        strings = loaded.decode(drawn.tokens.cpu(), drawn.lengths)
        row = {"guidance": strength, "nfe": drawn.nfe, **guided_row(strings, train, list(described))}
        rows.append(row)
    defaults = loaded.defaults(conditional=False)
    record = manifest(
        loaded,
        sampler=loaded.sampler(conditional=False),
        num_steps=drawn.num_steps,
        seeds=range(seed, seed + num),
        temperature=defaults.temperature if temperature is None else temperature,
        labels=described,
        evaluation="guidance",
        result=rows,
    )
    if files:
        from simplax.viz.guidance import draw_guidance

        record["figures"] = draw_guidance(loaded.config.name, rows, described, files)
    written = keep(record, "guidance", model, out)
    emit(json, {"results": rows, "manifest": record, "written": written}, lambda: _shown(rows, described))


def _shown(rows: list[dict[str, Any]], described: dict[str, str]) -> Any:
    heads = ["strength", "calls", "valid", "distinct", "novel", *(f"mean {name}" for name in described)]
    lines = [
        [
            f"{row['guidance']:g}",
            f"{row['nfe']:g}",
            *(str(row[name]) for name in ("valid", "unique", "novel")),
            *("" if row[f"{name}_novel"] is None else f"{row[f'{name}_novel']:.3f}" for name in described),
        ]
        for row in rows
    ]
    return table(heads, lines, names=1)
