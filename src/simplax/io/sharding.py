"""Work dealt out to the processes that torchrun started, with the result of one process.

Inside `together()` sampling, likelihoods and scoring are divided by whole batches: item i goes to process i modulo
their number, and every process receives all results in the order of the items. The batches are those of one process,
so the bits are too. Everywhere else, and in a single process, nothing is divided.

A process that fails says so at the next exchange: all fail together, with the same message, and nobody waits for one
that is gone.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist

T = TypeVar("T")
_PATIENCE = timedelta(days=30)
"""For processes that wait for others' work: torchrun itself ends all when one dies."""


@final
class Processes:
    """Those that work together, and which of them we are. `map` and `on_first` are collective: all call them."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.group: Any = None
        """What is talked through: the one group there is if None."""
        self.failed = False

    @property
    def first(self) -> bool:
        return self.rank == 0

    def map(self, work: Callable[[int], T], number: int) -> list[T]:
        """`work(i)` for every i below `number`, each done by one process; results must be on the CPU to travel."""
        if self.size == 1:
            return [work(item) for item in range(number)]
        own: list[T] = []
        error: Exception | None = None
        try:
            with alone():  # what the work calls in turn is not divided again
                own = [work(item) for item in range(self.rank, number, self.size)]
        except Exception as failure:
            error = failure
        self.agree(error)
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, own, group=self.group)
        return [parts[item % self.size][item // self.size] for item in range(number)]

    def on_first(self, action: Callable[[], T]) -> T:
        """What `action` returns in the first process; the others only wait for it."""
        if self.size == 1:
            return action()
        error: Exception | None = None
        message: list[Any] = [None]
        if self.first:
            try:
                with alone():
                    message = [action()]
            except Exception as failure:
                error = failure
        self.agree(error)
        dist.broadcast_object_list(message, src=0, group=self.group, device=torch.device("cpu"))
        result: T = message[0]
        return result

    def counting(self, progress: Callable[[int], None] | None, total: int) -> Callable[[int], None]:
        """Takes how much this process has done; `progress` is told of all, as if the others were as far."""
        if progress is None:
            return lambda done: None
        return lambda done: progress(min(total, done * self.size))

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """What fails in one process inside, fails in all of them."""
        try:
            yield
        except Exception as error:
            if not self.failed:
                self.agree(error)
            raise

    def agree(self, error: Exception | None) -> None:
        """Go on together, or raise in every process what went wrong in one."""
        if self.size == 1:
            if error is not None:
                raise error
            return
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, None if error is None else portable(error), group=self.group)
        first = next((one for one in found if one is not None), None)
        if first is None:
            return
        self.failed = True
        if not self.first:
            _state.speaks = False
        raise error if error is not None and self.first else first


class _State:
    """What belongs to this process as a whole."""

    current = Processes()
    speaks = True


_state = _State()


def current() -> Processes:
    """Those that share the work that is done now: this process alone, outside of `together()`."""
    return _state.current


def speaks() -> bool:
    """Whether a failure is this process's to report: not if the first one of several reports it."""
    return _state.speaks


@contextmanager
def alone() -> Iterator[None]:
    """Inside, this process does by itself whatever it is asked for."""
    before, _state.current = _state.current, Processes()
    try:
        yield
    finally:
        _state.current = before


@contextmanager
def together() -> Iterator[Processes]:
    """Inside, the processes that torchrun started share the work; one process by itself is not affected.

    All of them must go through the same calls in the same order.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 and not dist.is_initialized():
        yield current()
        return
    joined = dist.is_initialized()
    if not joined:
        join("gloo", timeout=_PATIENCE)
    before = _state.current
    _state.current = processes = Processes(dist.get_rank(), dist.get_world_size())
    if joined:  # the group that is there may be one of GPUs
        processes.group = dist.new_group(backend="gloo", timeout=_PATIENCE)
    try:
        with processes.failing_together():
            yield processes
        processes.agree(None)  # who leaves while others still talk can abort them
    finally:
        _state.current = before
        # nobody may hold a group that is gone, also not through a traceback: its threads would abort the process
        group, processes.group = processes.group, None
        dist.destroy_process_group(group)
        del group


def join(backend: str, **options: Any) -> None:
    """`dist.init_process_group`, whose group can be destroyed again.

    The functions of torch.distributed.nn have the group there is as a default argument, if they are imported when there
    is one; then it outlives its end, and its threads abort the process at exit.
    """
    import torch.distributed.nn.functional  # noqa: F401

    dist.init_process_group(backend, **options)


def portable(error: Exception) -> Exception:
    """The error as it can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(str(error))
    return error
