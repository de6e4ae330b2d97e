"""`simplax push MODEL NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from simplax.cli.output import emit, facts
from simplax.cli.parsing import Json, ModelName, Weights, run


def main(arguments: list[str]) -> None:
    run(push, arguments, "simplax push")


def push(
    model: ModelName,
    name: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="ORGANISATION/NAME on the hub")
    ],
    /,
    *,
    private: Annotated[bool, tyro.conf.arg(help="a repository that only its owners see")] = False,
    licence: Annotated[
        str | None, tyro.conf.arg(metavar="ID", help="licence of the weights, such as apache-2.0")
    ] = None,
    results: Annotated[
        tuple[Path, ...], tyro.conf.arg(help="manifests of evaluations, for the numbers on the card")
    ] = (),
    message: Annotated[str | None, tyro.conf.arg(help="of the commit")] = None,
    weights: Weights = "auto",
    json: Json = False,
) -> None:
    """Put a model on the Hugging Face hub, with a card that says what it is. Log in with `hf auth login` first."""
    from simplax.pretrained import hub
    from simplax.pretrained.model import from_pretrained

    loaded = from_pretrained(model, weights=weights, device="cpu")
    where = hub.push(loaded, name, private=private, licence=licence, results=results, message=message)
    data = {"name": name, "commit": where}
    emit(json, data, lambda: facts(data))
