"""Where puzzles are solved for comparison and made: one thread with a bounded queue, left by whoever stops waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request

from simplax.serve import sudoku
from simplax.serve.engine import Busy, Stopped
from simplax.serve.limits import Limits

Result = TypeVar("Result")
_LOOK_SECONDS = 0.5  # how often a silent connection is asked whether it is still there
_AGAIN_SECONDS = 5


class Search:
    """Requests wait here before they wait for the network, `limits.queue` of them at most, first come, first served.

    A search ends by itself after so many guesses, about half a second, so nobody holds the thread for long. While the
    code is compiled, which happens once and first of all, requests wait for that as long as for anything else.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(1, "simplax-search")
        self._waiting = 0

    def warm(self) -> None:
        """Compile solver and generator now, where they are compiled."""
        self._pool.submit(lambda: sudoku.known_solution(sudoku.read_board(sudoku.make_puzzle(30, 0).puzzle)))

    def waiting(self) -> int:
        return self._waiting

    async def run(self, request: Request, work: Callable[..., Result], *arguments: Any) -> Result:
        """`work(*arguments)` in its turn. `Busy` if too many wait, `Stopped` if it takes too long or the client left;
        what has not begun by then never begins."""
        if self._waiting >= self._limits.queue:
            raise Busy(_AGAIN_SECONDS)
        self._waiting += 1
        done = asyncio.wrap_future(self._pool.submit(work, *arguments))
        try:
            async with asyncio.timeout(self._limits.seconds):
                while not (await asyncio.wait({done}, timeout=_LOOK_SECONDS))[0]:
                    if await request.is_disconnected():
                        raise Stopped(499, "the client left")
            return done.result()
        except TimeoutError:
            raise Stopped(
                504, f"This took longer than {self._limits.seconds:g} seconds: try again."
            ) from None
        finally:
            done.cancel()
            self._waiting -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
