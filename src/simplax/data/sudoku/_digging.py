"""The benchmark's generator: fill a board at random, then blank cells while the solution stays unique."""

from __future__ import annotations

from simplax.data.sudoku._kernels import Buffer, Scratch, Tables, jit, search, start
from simplax.data.sudoku._twister import reseed, shuffle


@jit
def fill(board: Buffer, rng: Buffer, t: Tables, s: Scratch) -> None:
    """A complete board by row-major backtracking, the digits shuffled anew at every entry into a cell."""
    size, used, unit_of, orders, tried = t.size, s.used, t.unit_of, s.orders, s.tried
    for u in range(3 * size):
        used[u] = 0
    cell = 0
    entering = True
    while cell < t.total:
        begin = cell * size
        row, column, box = unit_of[3 * cell], unit_of[3 * cell + 1], unit_of[3 * cell + 2]
        if entering:
            for k in range(size):
                orders[begin + k] = k + 1
            shuffle(orders, begin, size, rng)
            tried[cell] = 0
        else:
            bit = 1 << (board[cell] - 1)
            used[row] ^= bit
            used[column] ^= bit
            used[box] ^= bit
        taken = used[row] | used[column] | used[box]
        k = tried[cell]
        while k < size and (taken >> (orders[begin + k] - 1)) & 1:
            k += 1
        entering = k < size
        if entering:
            board[cell] = orders[begin + k]
            tried[cell] = k + 1
            bit = 1 << (board[cell] - 1)
            used[row] |= bit
            used[column] |= bit
            used[box] |= bit
            cell += 1
        else:
            cell -= 1


@jit
def still_unique(cells: Buffer, cell: int, digit: int, trash: Buffer, t: Tables, s: Scratch) -> bool:
    """Whether the board keeps one solution now that `digit` was taken off `cell`.

    The board had one solution before, so a second one must hold another digit there. Two cheap tests settle
    most cases: no other digit fits the cell, or the digit fits no other cell of a unit.
    """
    used, unit_of, units, size = s.used, t.unit_of, t.units, t.size
    bit = 1 << (digit - 1)
    taken = used[unit_of[3 * cell]] | used[unit_of[3 * cell + 1]] | used[unit_of[3 * cell + 2]]
    others = t.full & ~(taken | bit)
    if others == 0:
        return True
    for which in range(3):
        alone = True
        begin = unit_of[3 * cell + which] * size
        for j in range(begin, begin + size):
            i = units[j]
            if cells[i] == 0 and i != cell:
                taken = used[unit_of[3 * i]] | used[unit_of[3 * i + 1]] | used[unit_of[3 * i + 2]]
                if taken & bit == 0:
                    alone = False
                    break
        if alone:
            return True
    top = start(cells, t, s)
    s.candidates[cell] = others
    if others & (others - 1) == 0:
        s.queue[top] = cell
        top += 1
    return search(top, 1, 0, trash, t, s) == 0


@jit
def dig(cells: Buffer, order: Buffer, clues: int, trash: Buffer, t: Tables, s: Scratch) -> None:
    """One greedy pass over `order`: blank a cell if the solution stays unique, until `clues` are left."""
    used, unit_of = s.used, t.unit_of
    left = t.total
    for cell in order:
        if left <= clues:
            return
        digit = cells[cell]
        bit = 1 << (digit - 1)
        cells[cell] = 0
        for which in range(3):
            used[unit_of[3 * cell + which]] ^= bit
        if still_unique(cells, cell, digit, trash, t, s):
            left -= 1
        else:
            cells[cell] = digit
            for which in range(3):
                used[unit_of[3 * cell + which]] ^= bit


@jit
def generate(
    first: int, number: int, clues: int, out: Buffer, rng: Buffer, work: Buffer, t: Tables, s: Scratch
) -> None:
    """Puzzle and solution of the seeds `first ... first + number - 1`, one after the other in the flat `out`.

    `work` has room for three boards: the one being dug, the order of removal and a board to throw away.
    """
    total = t.total
    board, order, trash = work[0:total], work[total : 2 * total], work[2 * total : 3 * total]
    for index in range(number):
        reseed(rng, first + index)
        fill(board, rng, t, s)
        for i in range(total):
            order[i] = i
            out[(2 * index + 1) * total + i] = board[i]
        shuffle(order, 0, total, rng)
        dig(board, order, clues, trash, t, s)
        for i in range(total):
            out[2 * index * total + i] = board[i]
