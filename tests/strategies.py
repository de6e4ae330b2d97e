"""What hypothesis draws for the mathematics: distributions, steps of the process and whole cases, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

thorough = settings(max_examples=60, deadline=None, derandomize=True)

sizes = st.integers(2, 8)


def probabilities(size: int, spread: float) -> st.SearchStrategy[Tensor]:
    """A strictly positive distribution with log-odds up to twice `spread`."""
    logits = st.lists(st.floats(-spread, spread, width=32), min_size=size, max_size=size)
    return logits.map(lambda values: torch.softmax(torch.tensor(values, dtype=torch.float64), -1))


def vertices(size: int) -> st.SearchStrategy[Tensor]:
    return st.integers(0, size - 1).map(lambda i: torch.eye(size, dtype=torch.float64)[i])


def priors(size: int) -> st.SearchStrategy[Tensor]:
    return st.one_of(probabilities(size, 0.0), probabilities(size, 2.0))


def predictions(size: int) -> st.SearchStrategy[Tensor]:
    """x_hat, from flat to nearly one-hot."""
    return st.one_of(probabilities(size, 1.0), probabilities(size, 4.0), probabilities(size, 15.0))


def simplex_states(size: int) -> st.SearchStrategy[Tensor]:
    """w_t in the interior, near a vertex and at one."""
    return st.one_of(probabilities(size, 1.5), probabilities(size, 15.0), vertices(size))


# A time t > 0, also t = 1; and the share alpha_t / alpha_s of a step, whose s is also allowed to be 0.
alphas = st.one_of(st.floats(0.01, 0.99), st.just(0.0))
shares = st.one_of(st.floats(0.01, 0.99), st.just(0.0))
alphas_inside = st.floats(0.01, 0.99)
alphas_early = st.one_of(st.floats(0.02, 0.98), st.just(1.0))
concentrations = st.floats(-2.0, 1.5).map(lambda exponent: 10.0**exponent)


@dataclass(frozen=True)
class Case:
    """One position: clean id, prediction, simplex state, prior and a step from t to s."""

    x: Tensor
    x_hat: Tensor
    w: Tensor
    pi: Tensor
    alpha_s: float
    alpha_t: float
    eta: float

    @property
    def size(self) -> int:
        return self.pi.shape[-1]

    @property
    def clean(self) -> Tensor:
        return torch.eye(self.size, dtype=torch.float64)[self.x]

    @property
    def step(self) -> tuple[float, float, Tensor]:
        return self.alpha_s, self.alpha_t, self.pi


@st.composite
def cases(draw: st.DrawFn, *, simplex_at_s: bool = False) -> Case:
    """Any case; `simplex_at_s` keeps s above 0, where a simplex state exists."""
    size = draw(sizes)
    alpha_s = draw(alphas_inside if simplex_at_s else alphas_early)
    return Case(
        x=torch.tensor(draw(st.integers(0, size - 1))),
        x_hat=draw(predictions(size)),
        w=draw(simplex_states(size)),
        pi=draw(priors(size)),
        alpha_s=alpha_s,
        alpha_t=alpha_s * draw(shares),
        eta=draw(concentrations),
    )


def random_batch(seed: int, *leading: int, size: int, spread: float = 1.5) -> dict[str, Tensor]:
    """Seeded float64 arguments x (ids), x_hat, w_t, pi of a leading shape, for tests over many cases at once."""
    g = torch.Generator().manual_seed(seed)

    def simplex(*shape: int) -> Tensor:
        return torch.softmax(spread * torch.randn(*shape, generator=g, dtype=torch.float64), -1)

    return {
        "x": torch.randint(size, leading, generator=g),
        "x_hat": simplex(*leading, size),
        "w_t": simplex(*leading, size),
        "pi": simplex(size),
    }
