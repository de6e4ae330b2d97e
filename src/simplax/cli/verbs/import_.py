"""`simplax import PATH --from PROJECT --out DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from simplax.cli.output import emit, facts, say
from simplax.cli.parsing import Json, run


def main(arguments: list[str]) -> None:
    run(import_, arguments, "simplax import")


def import_(
    path: Annotated[
        Path,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="PATH", help="a Lightning .ckpt file or a Hugging Face directory"),
    ],
    /,
    *,
    project: Annotated[
        Literal["mdlm", "udlm", "duo"], tyro.conf.arg(name="from", help="whose code wrote the file")
    ],
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="new directory for the model")],
    weights: Annotated[
        Literal["auto", "ema", "raw"],
        tyro.conf.arg(help="averaged or last weights; auto: averaged if there are"),
    ] = "auto",
    as_method: Annotated[
        Literal["own", "mdlm", "udlm", "duo-base", "simplax"],
        tyro.conf.arg(name="as", help="the method to go on with; own: the one the model was trained with"),
    ] = "own",
    mask_id: Annotated[
        int | None, tyro.conf.arg(help="the mask's id, where no tokenizer says it and it is not the last")
    ] = None,
    length: Annotated[int | None, tyro.conf.arg(help="of sequences, where the file does not say it")] = None,
    drop_classes: Annotated[
        bool, tyro.conf.arg(help="use a model trained with class labels without any")
    ] = False,
    data: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="DATA", help="prepared data to evaluate and fine-tune on, see `simplax data text`"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a model of MDLM, UDLM or Duo one of ours. Nothing in the file is run.

    The result is a model directory: sample, evaluate and serve it as any other, or go on training with
    `simplax train RECIPE --config DIR/config.json --init-from DIR`.
    """
    from simplax.errors import UserError
    from simplax.pretrained.importing.convert import Request, import_model

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} already exists and is not empty: name a new directory.")
    request = Request(weights, as_method, mask_id, length, drop_classes, data)
    imported = import_model(path, project, request, out.resolve().name)
    imported.save(out)
    if data is None:
        say(
            "no data was named: `simplax evaluate` and `simplax train` need --data here, or --task.corpus there"
        )
    result = {"directory": str(out), **imported.facts}
    emit(json, result, lambda: facts(result))
