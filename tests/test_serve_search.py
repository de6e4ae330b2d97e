"""Solving for comparison: bounded, in turn, never cut off while code is compiled, left by whoever stops waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the serve extra is not installed")

from simplax.data.sudoku import count_solutions
from simplax.errors import UserError
from simplax.serve import sudoku
from simplax.serve.engine import Busy, Stopped
from simplax.serve.limits import Limits
from simplax.serve.search import Search
from test_sudoku_few import ENDLESS


class Asker:
    """A request, as far as it is asked whether its client is there."""

    def __init__(self, here: bool = True) -> None:
        self.here = here

    async def is_disconnected(self) -> bool:
        return not self.here


def held(search: Search) -> threading.Event:
    """The thread is kept busy, as by a compiler, until the event is set."""
    free = threading.Event()
    search._pool.submit(free.wait, 60)
    return free


def run(scenario: Callable[[Search], Any], **limits: Any) -> Any:
    async def whole() -> Any:
        search = Search(Limits(**limits))
        try:
            return await scenario(search)
        finally:
            search.close()

    return asyncio.run(whole())


def test_a_cold_start_delays_answers_and_loses_none() -> None:
    async def scenario(search: Search) -> Any:
        free = held(search)
        asked: Any = Asker()
        work = asyncio.ensure_future(search.run(asked, lambda: "known"))
        await asyncio.sleep(1.2)
        assert not work.done() and search.waiting() == 1
        free.set()
        return await work, search.waiting()

    assert run(scenario) == ("known", 0)


def test_who_leaves_or_waits_too_long_is_never_worked_for() -> None:
    ran: list[str] = []

    async def scenario(search: Search) -> None:
        free = held(search)
        gone: Any = Asker(here=False)
        here: Any = Asker()
        asked = [search.run(gone, ran.append, "gone"), search.run(here, ran.append, "late")]
        found: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
        assert [error.status for error in found] == [499, 504] and isinstance(found[0], Stopped)
        left = asyncio.ensure_future(search.run(here, ran.append, "cancelled"))
        await asyncio.sleep(0.1)
        left.cancel()
        await asyncio.wait({left})
        free.set()
        await search.run(here, ran.append, "next")
        assert search.waiting() == 0

    run(scenario, seconds=1.0)
    assert ran == ["next"]


def test_only_so_many_wait() -> None:
    async def scenario(search: Search) -> None:
        free, asker = held(search), Asker()
        request: Any = asker
        waiting = [asyncio.ensure_future(search.run(request, int)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy) as refused:
            await search.run(request, int)
        assert refused.value.seconds >= 1
        free.set()
        assert await asyncio.gather(*waiting) == [0, 0]

    run(scenario, queue=2)


def test_no_board_holds_the_thread() -> None:
    """A search that would go on for very long ends with nothing known, not with an error."""
    assert sudoku.known_solution(sudoku.read_board(ENDLESS)) is None
    with pytest.raises(UserError, match="no solution"):
        sudoku.known_solution(sudoku.read_board("12345678." + "........9" + "." * 63))


@pytest.mark.parametrize("clues", [17, 21, 22])
def test_a_puzzle_is_made_with_any_number_of_clues(clues: int) -> None:
    made = sudoku.make_puzzle(clues, 5)
    board = np.array([int(digit) for digit in made.puzzle])
    assert np.count_nonzero(board) == made.clues and count_solutions(board) == 1
    assert made.clues == clues or clues == 22
