"""The next step's data, made while this step trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Part = tuple[Any, ...]


class Prefetch:
    """Calls `make(step)` in a thread, one step ahead, and moves what it returns to the device when it is used.

    `make` must be a function of the step alone, on the CPU. For a GPU its tensors are put in pinned memory, so that
    the copy waits for nothing. What it raises is raised where the step's data is requested.
    """

    def __init__(self, make: Callable[[int], list[Part]], last: int, device: torch.device) -> None:
        self._make, self._last, self._device = make, last, device
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._next: tuple[int, Future[list[Part]]] | None = None

    def __call__(self, step: int) -> Iterator[Part]:
        if self._next is None or self._next[0] != step:
            self._next = (step, self._submit(step))
        parts = self._next[1].result()
        self._next = (step + 1, self._submit(step + 1)) if step + 1 < self._last else None
        yield from map(self.moved, parts)

    def moved(self, part: Part) -> Part:
        """The same on the device."""
        return tuple(_moved(value, self._to_device) for value in part)

    def close(self) -> None:
        self._next = None
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _submit(self, step: int) -> Future[list[Part]]:
        return self._worker.submit(self._prepared, step)

    def _prepared(self, step: int) -> list[Part]:
        parts = self._make(step)
        if self._device.type != "cuda":
            return parts
        return [tuple(_moved(value, Tensor.pin_memory) for value in part) for part in parts]

    def _to_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, non_blocking=True)


def _moved(value: T, move: Callable[[Tensor], Tensor]) -> T:
    """A tensor, or a dataclass with tensors somewhere in it, moved."""
    if isinstance(value, Tensor):
        return move(value)  # type: ignore[return-value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    inner = {f.name: _moved(getattr(value, f.name), move) for f in dataclasses.fields(value) if f.init}
    return dataclasses.replace(value, **inner)
