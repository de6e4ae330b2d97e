"""Integer loops of the search for puzzles with few clues: what can be exchanged, and which clues are spare."""

from __future__ import annotations

from simplax.data.sudoku._kernels import (
    Buffer,
    Scratch,
    Tables,
    count,
    jit,
    load,
    most_constrained,
    settle,
    start,
)


@jit
def tally(cells: Buffer, most: int, seen: Buffer, t: Tables, s: Scratch) -> int:
    """Count in `seen[9 * cell + digit - 1]` the solutions with that digit there; -1 if there are over `most`."""
    candidates, queue, branch, choices, total = s.candidates, s.queue, s.branch, s.choices, t.total
    for i in range(total * t.size):
        seen[i] = 0
    if not load(cells, t, s):
        return 0
    top = start(cells, t, s)
    if top < 0 or not settle(candidates, 0, queue, top, t):
        return 0
    found = 0
    depth = -1
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
                found += 1
                if found > most:
                    return -1
                for i in range(total):
                    seen[t.size * i + t.popcount[candidates[base + i] - 1]] += 1
        while depth >= 0 and choices[depth] == 0:
            depth -= 1
        if depth < 0:
            return found
        base = depth * total
        bit = choices[depth] & -choices[depth]
        choices[depth] ^= bit
        candidates[base + total : base + 2 * total] = candidates[base : base + total]
        candidates[base + total + branch[depth]] = bit
        queue[0] = branch[depth]
        alive = settle(candidates, base + total, queue, 1, t)


@jit
def spare(cells: Buffer, trash: Buffer, t: Tables, s: Scratch) -> int:
    """The first clue without which the solution is still the only one; -1 if every clue is needed."""
    for i in range(t.total):
        digit = cells[i]
        if digit > 0:
            cells[i] = 0
            found = count(cells, 2, 0, trash, t, s)
            cells[i] = digit
            if found == 1:
                return i
    return -1


@jit
def exchanges(cells: Buffer, most: int, seen: Buffer, out: Buffer, t: Tables, s: Scratch) -> int:
    """Puzzles with one clue taken off and another put in, as `(clue, cell, digit)` in `out`; how many there are."""
    made = 0
    room = len(out) // 3
    for clue in range(t.total):
        digit = cells[clue]
        if digit == 0:
            continue
        cells[clue] = 0
        found = tally(cells, most, seen, t, s)
        cells[clue] = digit
        if found < 2:
            continue
        for cell in range(t.total):
            if cells[cell] > 0:
                continue
            for k in range(t.size):
                if seen[t.size * cell + k] == 1 and made < room:
                    out[3 * made] = clue
                    out[3 * made + 1] = cell
                    out[3 * made + 2] = k + 1
                    made += 1
    return made
