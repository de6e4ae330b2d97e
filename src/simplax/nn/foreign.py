"""Bring your own network: any callable `(z, t) -> logits` is a denoiser."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

_ACCEPTED: WeakKeyDictionary[Callable[..., Any], frozenset[str] | None] = WeakKeyDictionary()


def call(denoiser: Callable[..., Tensor], z: Any, t: Tensor | None, **context: Any) -> Tensor:
    """`denoiser(z, t)` with those of the keyword arguments that its signature accepts and that are not None.

    So a method can offer everything it knows (`given`, `attend`, `self_condition`) to every network.
    """
    accepted = accepted_keywords(denoiser)
    chosen = {
        name: value
        for name, value in context.items()
        if value is not None and (accepted is None or name in accepted)
    }
    return denoiser(z, t, **chosen)


def accepted_keywords(denoiser: Callable[..., Any]) -> frozenset[str] | None:
    """Names a callable can be given by keyword; None when it takes any."""
    function = _function(denoiser)
    if function not in _ACCEPTED:
        _ACCEPTED[function] = _inspect(function)
    return _ACCEPTED[function]


def _inspect(function: Callable[..., Any]) -> frozenset[str] | None:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))


def _function(denoiser: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function whose signature counts: it outlives no model, so it may be a key of the cache."""
    target: Any = denoiser
    if isinstance(target, nn.Module):
        # compiled and data-parallel wrappers take any keyword and hand it on, so inspect the module inside
        target = unwrapped(target).forward
    elif not inspect.isroutine(target) and not isinstance(target, functools.partial):
        target = target.__call__
    return getattr(target, "__func__", target)


def attribute(denoiser: object, name: str, default: Any = None) -> Any:
    """An attribute of the network itself, whatever wrapper it is called through."""
    return getattr(unwrapped(denoiser) if isinstance(denoiser, nn.Module) else denoiser, name, default)


def inner(denoiser: Any) -> Any:
    """The network itself, whatever wrapper or `Network` it comes in."""
    denoiser = getattr(denoiser, "denoiser", denoiser)
    return unwrapped(denoiser) if isinstance(denoiser, nn.Module) else denoiser


def unwrapped(module: nn.Module) -> nn.Module:
    """The module inside compiled and data-parallel wrappers."""
    while (inner := getattr(module, "_orig_mod", None) or _parallel_inner(module)) is not None:
        module = inner
    return module


def _parallel_inner(module: nn.Module) -> nn.Module | None:
    parallel = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    return module.module if isinstance(module, parallel) else None
