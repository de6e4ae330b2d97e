"""Options that all verbs that sample share; one that is not given has the model's own default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from simplax.concentration import Concentration

Steps = Annotated[
    int | None, tyro.conf.arg(metavar="N", help="steps of the sampler: network calls per answer")
]
Eta = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="ETA",
        help="concentration of Simplax's sampler: a number, vanish:VALUE:POWER:UNTIL:LEAST or pertoken:REDRAWS",
    ),
]
TimePower = Annotated[
    float | None,
    tyro.conf.arg(
        metavar="P", help="times of the steps are (1 - k/N)^P: over 1 for finer steps near the end"
    ),
]
Temperature = Annotated[float | None, tyro.conf.arg(help="divides the logits")]
Seed = Annotated[int, tyro.conf.arg(help="of the noise")]
Compile = Annotated[bool, tyro.conf.arg(help="compile the network first; on a CPU with small batches")]
BatchSize = Annotated[int, tyro.conf.arg(help="changes speed only")]


LabelValues = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        name="label",
        metavar="NAME=VALUE",
        help="what sequences should be like; once for each label of the data",
    ),
]
Guidance = Annotated[
    float | None,
    tyro.conf.arg(
        metavar="GAMMA",
        help="how strongly --label counts: 1 as trained, over 1 more than that, at two network calls per step",
    ),
]


def read_labels(texts: tuple[str, ...]) -> dict[str, str] | None:
    """The labels that were typed, if any."""
    from simplax.errors import UserError

    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise UserError(f"--label takes NAME=VALUE, not {name!r}.")
    named = {name: value for name, _, value in pairs}
    if len(named) < len(pairs):
        raise UserError("every label is given once: leave out the repetition of --label.")
    return named or None


def read_eta(text: str | None) -> float | Concentration | None:
    """The concentration that was typed, if any."""
    from simplax.concentration import parse

    return None if text is None else parse(text)
