"""The random words of the generator: CPython's Mersenne Twister, re-implemented where numba compiles it.

Seeding, `shuffle` and the rejection inside it follow `random.Random` to the bit, so a seed means the same
board with and without numba. Plain Python simply uses `random.Random`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from simplax.data.sudoku._kernels import COMPILED, Buffer, jit


def new_rng() -> Buffer:
    """A generator for `reseed` and `shuffle`: 624 words and a position, or Python's own."""
    return np.zeros(625, dtype=np.int64) if COMPILED else random.Random()


def _reseed_python(rng: random.Random, seed: int) -> None:
    rng.seed(seed)


def _shuffle_python(items: Buffer, begin: int, length: int, rng: random.Random) -> None:
    part = items[begin : begin + length]
    rng.shuffle(part)
    items[begin : begin + length] = part


def _reseed_twister(rng: Buffer, seed: int) -> None:
    """MT19937 `init_by_array` with the 32-bit words of |seed| as key, as CPython seeds from an integer."""
    seed = abs(seed)
    words = 2 if seed >> 32 else 1
    rng[0] = 19650218
    for i in range(1, 624):
        rng[i] = (1812433253 * (rng[i - 1] ^ (rng[i - 1] >> 30)) + i) & 0xFFFFFFFF
    i = 1
    j = 0
    for _ in range(624):
        word = (seed >> 32 if j else seed) & 0xFFFFFFFF
        rng[i] = ((rng[i] ^ ((rng[i - 1] ^ (rng[i - 1] >> 30)) * 1664525)) + word + j) & 0xFFFFFFFF
        i += 1
        j = (j + 1) % words
        if i == 624:
            rng[0] = rng[623]
            i = 1
    for _ in range(623):
        rng[i] = ((rng[i] ^ ((rng[i - 1] ^ (rng[i - 1] >> 30)) * 1566083941)) - i) & 0xFFFFFFFF
        i += 1
        if i == 624:
            rng[0] = rng[623]
            i = 1
    rng[0] = 0x80000000
    rng[624] = 624


def _twist(rng: Buffer) -> None:
    for i in range(624):
        mixed = (rng[i] & 0x80000000) | (rng[(i + 1) % 624] & 0x7FFFFFFF)
        rng[i] = rng[(i + 397) % 624] ^ (mixed >> 1) ^ (0x9908B0DF if mixed & 1 else 0)
    rng[624] = 0


def _word(rng: Buffer) -> int:
    """The next 32 random bits."""
    if rng[624] == 624:
        twist(rng)
    y = rng[rng[624]]
    rng[624] += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    return y ^ (y >> 18)


def _shuffle_twister(items: Buffer, begin: int, length: int, rng: Buffer) -> None:
    """`random.shuffle`: Fisher-Yates from the end, indices by rejection on the fewest bits that hold them."""
    for last in range(length - 1, 0, -1):
        bits = 0
        while (last + 1) >> bits:
            bits += 1
        pick = word(rng) >> (32 - bits)
        while pick > last:
            pick = word(rng) >> (32 - bits)
        held = items[begin + last]
        items[begin + last] = items[begin + pick]
        items[begin + pick] = held


twist, word = jit(_twist), jit(_word)
reseed: Callable[..., None] = jit(_reseed_twister) if COMPILED else _reseed_python
shuffle: Callable[..., None] = jit(_shuffle_twister) if COMPILED else _shuffle_python
