"""The integer loops of the solver, written once for numba and for plain Python.

Everything here and in `_digging` is indexing and integer arithmetic on buffers: `int64` arrays when numba
compiles it, lists when Python runs it (a list is several times faster to index than an array). Import this
module only inside functions: it imports numba. Compiled code is cached per file: after an edit here, delete the
cached code of `_digging` and `_reducing` too, since numba does not notice that a function called from another file
has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

try:
    import numba as _numba

    numba: Any = _numba
except ImportError:
    numba = None

COMPILED = numba is not None
Buffer = Any  # a list or an int64 array; also random.Random, where it stands for a generator
_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    compiled: Any = numba.njit(cache=True, nogil=True)(function) if COMPILED else function
    return compiled


def to_buffer(values: Sequence[int] | np.ndarray) -> Buffer:
    return np.array(values, dtype=np.int64) if COMPILED else [int(v) for v in values]


class Tables(NamedTuple):
    """The geometry of a board: `units` lists rows, columns, boxes; `unit_of` names the three of each cell."""

    size: int
    total: int
    degree: int
    full: int
    peers: Buffer
    units: Buffer
    unit_of: Buffer
    popcount: Buffer


class Scratch(NamedTuple):
    """Working memory: `used` digits per unit as bits, candidates for each depth of branching, stacks."""

    used: Buffer
    candidates: Buffer
    queue: Buffer
    branch: Buffer
    choices: Buffer
    orders: Buffer
    tried: Buffer


@cache
def tables(size: int) -> Tables:
    box, total = int(size**0.5), size * size
    names = [
        (i // size, size + i % size, 2 * size + i // size // box * box + i % size // box)
        for i in range(total)
    ]
    units = [[i for i in range(total) if u in names[i]] for u in range(3 * size)]
    peers = [sorted({j for u in names[i] for j in units[u]} - {i}) for i in range(total)]
    popcount = [bin(mask).count("1") for mask in range(1 << size)]
    lists = [np.ravel(rows) for rows in (peers, units, names, popcount)]
    return Tables(size, total, len(peers[0]), (1 << size) - 1, *map(to_buffer, lists))


def zeros(length: int) -> Buffer:
    return np.zeros(length, dtype=np.int64) if COMPILED else [0] * length


def scratch(size: int) -> Scratch:
    total = size * size
    lengths = (3 * size, (total + 1) * total, total, total, total, total * size, total)
    return Scratch(*map(zeros, lengths))


@jit
def load(cells: Buffer, t: Tables, s: Scratch) -> bool:
    """Record the digits used in each unit; False if two clues clash."""
    used, unit_of = s.used, t.unit_of
    for u in range(3 * t.size):
        used[u] = 0
    for i in range(t.total):
        if cells[i] > 0:
            bit = 1 << (cells[i] - 1)
            row, column, box = unit_of[3 * i], unit_of[3 * i + 1], unit_of[3 * i + 2]
            if (used[row] | used[column] | used[box]) & bit:
                return False
            used[row] |= bit
            used[column] |= bit
            used[box] |= bit
    return True


@jit
def start(cells: Buffer, t: Tables, s: Scratch) -> int:
    """Set the candidates from the used digits; queues forced blanks, -1 if a blank has no candidate."""
    used, unit_of, candidates, queue, full = s.used, t.unit_of, s.candidates, s.queue, t.full
    top = 0
    for i in range(t.total):
        if cells[i] > 0:
            candidates[i] = 1 << (cells[i] - 1)
            continue
        mask = full & ~(used[unit_of[3 * i]] | used[unit_of[3 * i + 1]] | used[unit_of[3 * i + 2]])
        if mask == 0:
            return -1
        candidates[i] = mask
        if mask & (mask - 1) == 0:
            queue[top] = i
            top += 1
    return top


@jit
def propagate(candidates: Buffer, base: int, queue: Buffer, top: int, peers: Buffer, degree: int) -> bool:
    """Take the digits of queued cells off their peers, queueing those that become forced; False if one has none."""
    while top > 0:
        top -= 1
        cell = queue[top]
        bit = candidates[base + cell]
        for j in range(cell * degree, cell * degree + degree):
            peer = peers[j]
            mask = candidates[base + peer]
            if mask & bit:
                mask ^= bit
                if mask == 0:
                    return False
                candidates[base + peer] = mask
                if mask & (mask - 1) == 0:
                    queue[top] = peer
                    top += 1
    return True


@jit
def hidden_singles(candidates: Buffer, base: int, queue: Buffer, units: Buffer, size: int, full: int) -> int:
    """Force and queue the digits that have one place left in a unit; -1 if a digit has none."""
    top = 0
    for begin in range(0, 3 * size * size, size):
        once = 0
        twice = 0
        fixed = 0
        for j in range(begin, begin + size):
            mask = candidates[base + units[j]]
            twice |= once & mask
            once |= mask
            if mask & (mask - 1) == 0:
                fixed |= mask
        if once != full:
            return -1
        lonely = once & ~twice & ~fixed
        if lonely:
            for j in range(begin, begin + size):
                bit = candidates[base + units[j]] & lonely
                if bit:
                    if bit & (bit - 1):
                        return -1
                    candidates[base + units[j]] = bit
                    queue[top] = units[j]
                    top += 1
    return top


@jit
def settle(candidates: Buffer, base: int, queue: Buffer, top: int, t: Tables) -> bool:
    """Apply both kinds of singles until nothing changes; False on contradiction."""
    while propagate(candidates, base, queue, top, t.peers, t.degree):
        top = hidden_singles(candidates, base, queue, t.units, t.size, t.full)
        if top <= 0:
            return top == 0
    return False


@jit
def most_constrained(candidates: Buffer, base: int, total: int, popcount: Buffer) -> int:
    """The undecided cell with the fewest candidates, -1 if every cell is decided."""
    best = -1
    fewest = 99
    for i in range(total):
        mask = candidates[base + i]
        if mask & (mask - 1):
            count = popcount[mask]
            if count == 2:
                return i
            if count < fewest:
                fewest = count
                best = i
    return best


@jit
def search(top: int, limit: int, most: int, solution: Buffer, t: Tables, s: Scratch) -> int:
    """Count solutions of the candidates at depth 0, at most `limit`; the first is written to `solution`.

    -1 if that takes more than `most` guesses; any number of them with `most` 0.
    """
    candidates, queue, branch, choices, total = s.candidates, s.queue, s.branch, s.choices, t.total
    if top < 0 or not settle(candidates, 0, queue, top, t):
        return 0
    found = 0
    guesses = 0
    depth = -1  # of the last branching; the level above it is the one under inspection
    alive = True
    while True:
        base = (depth + 1) * total
        if alive:
            cell = most_constrained(candidates, base, total, t.popcount)
            if cell >= 0:
                depth += 1
                branch[depth] = cell
                choices[depth] = candidates[base + cell]
            else:
                if found == 0:
                    for i in range(total):
                        solution[i] = t.popcount[candidates[base + i] - 1] + 1
                found += 1
                if found >= limit:
                    return found
        while depth >= 0 and choices[depth] == 0:
            depth -= 1
        if depth < 0:
            return found
        guesses += 1
        if guesses == most + 1 and most > 0:
            return -1
        base = depth * total
        bit = choices[depth] & -choices[depth]
        choices[depth] ^= bit
        candidates[base + total : base + 2 * total] = candidates[base : base + total]
        candidates[base + total + branch[depth]] = bit
        queue[0] = branch[depth]
        alive = settle(candidates, base + total, queue, 1, t)


@jit
def count(cells: Buffer, limit: int, most: int, solution: Buffer, t: Tables, s: Scratch) -> int:
    if not load(cells, t, s):
        return 0
    return search(start(cells, t, s), limit, most, solution, t, s)
