"""How a chain on tokens ends when it stops before time zero: one more network call, and a decision."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from simplax.processes.base import TokenProcess
from simplax.processes.prediction import Prediction
from simplax.random import Keys

Ending = Callable[[TokenProcess, Tensor, Prediction, Tensor, Keys], Tensor]


def _greedy(process: TokenProcess, z: Tensor, prediction: Prediction, t: Tensor, keys: Keys) -> Tensor:
    """Arg-max of x_hat, the published greedy tail; under uniform noise it ignores the token's own evidence."""
    return process.greedy(z, prediction)


def _posterior(process: TokenProcess, z: Tensor, prediction: Prediction, t: Tensor, keys: Keys) -> Tensor:
    """A draw from the posterior of the clean token given z and x_hat."""
    return process.bridge(z, prediction, t, None, keys)


def _posterior_argmax(
    process: TokenProcess, z: Tensor, prediction: Prediction, t: Tensor, keys: Keys
) -> Tensor:
    """The likeliest clean token given z and x_hat: a leave-one-out prediction plus the token's own evidence."""
    return process.likeliest(z, prediction, t)


ENDINGS: dict[str, Ending] = {
    "greedy": _greedy,
    "posterior": _posterior,
    "posterior_argmax": _posterior_argmax,
}


def check_ending(name: str | None) -> None:
    if name is not None and name not in ENDINGS:
        raise ValueError(f"unknown end of the chain {name!r}: choose one of {', '.join(ENDINGS)}, or None")
