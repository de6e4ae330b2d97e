"""Worker processes that do chunks and hand the results back in order."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from simplax.data.text.chunks import Chunk, Reader
from simplax.errors import UserError

_reader: Reader | None = None


class WorkerLost(UserError):
    """A worker was stopped from outside: what is done stays, and the same command goes on from there."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(reader: Reader, work: str, chunks: Iterable[Chunk], workers: int) -> Iterator[Any]:
    """Results of the reader's method `work` (`survey` or `encode`) on every chunk, in the order of the chunks.

    Only a few chunks more than there are workers are ever under way, so that memory does not grow with the data.
    """
    if workers == 1:
        yield from map(getattr(reader, work), chunks)
        return
    # not forked from here: threads of torch and of the tokenizers library do not survive a fork; where there is a
    # server that forks, the library is imported once for all workers
    known = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in known else "spawn")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(workers, context, _begin, (reader,)) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for chunk in chunks:
                waiting.append(pool.submit(_do, work, chunk))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise WorkerLost(
                "a worker process was stopped, perhaps for want of memory: run the same command again, with fewer "
                "--workers."
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(reader: Reader) -> None:
    """In a new worker: one thread each, interrupts are the parent's business, and nobody outlives the parent."""
    global _reader
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _reader = reader


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _do(work: str, chunk: Chunk) -> Any:
    return getattr(_reader, work)(chunk)
