"""What the scheduler needs of diffusers' base classes, for when that package is not there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class SchedulerMixin:
    """Nothing: saving and loading come with diffusers."""


class ConfigMixin:
    """The settings of a scheduler, as attributes."""

    config: Any


def register_to_config(init: Callable[..., None]) -> Callable[..., None]:
    """Keep the arguments of a constructor in `config`."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> None:
        bound = signature.bind(self, *arguments, **options)
        bound.apply_defaults()
        self.config = SimpleNamespace(**{k: v for k, v in bound.arguments.items() if k != "self"})
        init(self, *arguments, **options)

    return wrapper
