"""Options that all verbs that sample share; one that is not given has the model's own default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from simplax.concentration import Concentration
    from simplax.samplers.stopping import Settled

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
StopAfter = Annotated[
    int | None,
    tyro.conf.arg(metavar="N", help="a board is done once N network calls in a row agree on it; 2 or more"),
]
Seed = Annotated[int, tyro.conf.arg(help="of the noise")]
Compile = Annotated[bool, tyro.conf.arg(help="compile the network first; on a CPU with small batches")]
BatchSize = Annotated[int, tyro.conf.arg(help="changes speed only")]


def read_eta(text: str | None) -> float | Concentration | None:
    """The concentration that was typed, if any."""
    from simplax.concentration import parse

    return None if text is None else parse(text)


def read_stop(calls: int | None) -> Settled | None:
    """The early stop that was typed, if any."""
    from simplax.errors import UserError
    from simplax.samplers.stopping import Settled

    if calls is None:
        return None
    try:
        return Settled(calls)
    except ValueError as error:
        raise UserError(f"--stop-after: {error}.") from error
