"""Settings that are tried for each kind of sampler: as many for every method, the sampler's own default first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from simplax.concentration import Vanishing
from simplax.methods import Method
from simplax.samplers import (
    Ancestral,
    FirstHitting,
    GeodesicEuler,
    MaskedAncestral,
    Psi,
    Sampler,
    Simplax,
)
from simplax.samplers.adjust import adjusted
from simplax.samplers.kappa import Fixed, FromEta
from simplax.suites.declared import Setting
from simplax.times import Grid

TRIES = 6
"""For every row of every suite: a grid of another size is refused."""
_TEMPERATURES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)
_SELDOM = Vanishing(4.0, power=0.0, until=0.35, least=1.0)


def _plain(sampler: Any) -> list[Setting]:
    """Samplers with nothing else to choose."""
    return [Setting(sampler, value) for value in _TEMPERATURES]


def _ancestral(sampler: Any) -> list[Setting]:
    pairs = ((1.0, 1.0), (1.0, 2.0), (0.5, 1.0), (0.5, 2.0), (0.3, 1.5), (0.3, 2.2))
    return [Setting(adjusted(sampler, time_power=power), value) for value, power in pairs]


def _simplax(sampler: Any) -> list[Setting]:
    """Its concentration in training; often, for repair; seldom, for boards without clues."""
    chosen: list[tuple[Any, float, float]] = [
        (sampler.eta, 1.0, 1.0),
        (10.0, 1.0, 1.0),
        (100.0, 1.0, 1.0),
        (100.0, 0.5, 2.0),
        (1.0, 0.4, 1.75),
        (_SELDOM, 0.3, 2.2),
    ]
    return [Setting(adjusted(sampler, eta=eta, time_power=power), value) for eta, value, power in chosen]


def _masked(sampler: Any) -> list[Setting]:
    finer = replace(sampler, times=replace(sampler.times, power=2.0))
    return [
        Setting(sampler),
        Setting(sampler, 0.5),
        Setting(finer, 0.3),
        Setting(FirstHitting()),
        Setting(FirstHitting(), 0.5),
        Setting(FirstHitting(), 0.2),
    ]


def _geodesic(sampler: Any) -> list[Setting]:
    drawing = replace(sampler, draw=True)
    return [Setting(one, value) for one in (sampler, drawing) for value in (1.0, 0.5, 0.2)]


def _posterior(sampler: Any) -> list[Setting]:
    """Redraws from the posterior: some, most and all tokens at every step."""
    return [
        Setting(Psi(kappa=FromEta(1.0)), 1.0),
        Setting(Psi(kappa=FromEta(10.0)), 1.0),
        Setting(Psi(kappa=Fixed(0.0)), 1.0),
        Setting(Psi(kappa=Fixed(0.0), times=Grid(power=2.0)), 0.5),
        Setting(Psi(kappa=Fixed(0.0), times=Grid(power=2.2)), 0.3),
        Setting(Psi(kappa=FromEta(1.0), times=Grid(power=1.75)), 0.4),
    ]


_GRIDS: dict[type[Sampler[Any]], Callable[[Any], list[Setting]]] = {
    Ancestral: _ancestral,
    Simplax: _simplax,
    MaskedAncestral: _masked,
    GeodesicEuler: _geodesic,
    Psi: _posterior,
}


def tries(sampler: Sampler[Any]) -> tuple[Setting, ...]:
    """What is tried with this kind of sampler; temperatures alone for one that is not listed."""
    found = _GRIDS.get(type(sampler), _plain)(sampler)
    unique = tuple(dict.fromkeys(found))
    assert len(unique) == TRIES, f"{type(sampler).__name__} has {len(unique)} tries instead of {TRIES}"
    return unique


def own_tries(method: Method) -> tuple[Setting, ...]:
    """With the method's own sampler."""
    return tries(method.sampler())
