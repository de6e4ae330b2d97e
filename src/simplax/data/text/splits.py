"""Which documents are held out for validation."""

from __future__ import annotations

import numpy as np

from simplax.errors import UserError

_SEED = 0


def parse_split(text: str) -> int | float:
    """A number of documents, or a share below one."""
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if not 0 <= share < 1:
                raise ValueError
            return share
        number = int(text)
        if number < 0:
            raise ValueError
        return number
    except ValueError:
        raise UserError(f"a split is a number of documents or a share such as 1%, not {text!r}.") from None


def held_out(split: str, sizes: np.ndarray, each: bool) -> np.ndarray:
    """(documents,) bool. A number holds out the last documents, a share takes them from everywhere.

    Where every document is a sequence of its own (`each`), a share is one of the documents. Where they are joined into
    one stream it is one of their `sizes`, made of whole documents; none are held out if each is larger than the share
    (a directory of two books, say), and then the last rows of the stream should be.
    """
    number, held = parse_split(split), np.zeros(len(sizes), dtype=bool)
    if isinstance(number, int):
        if number >= len(sizes):
            raise UserError(f"there are {len(sizes)} documents: hold out fewer than that, not {number}.")
        held[len(sizes) - number :] = True
        return held
    if not number or len(sizes) < 2:
        return held
    if each:
        held[_order(len(sizes))[: max(1, round(number * len(sizes)))]] = True
        return held
    target = number * float(sizes.sum())
    order = _order(len(sizes))
    small = order[sizes[order] <= target]
    total = np.cumsum(sizes[small])
    if not len(small) or total[-1] < target / 2:
        return held
    held[small[: int(np.searchsorted(total, target)) + 1]] = True
    return held


def _order(documents: int) -> np.ndarray:
    """Documents in a fixed order that has nothing to do with theirs."""
    import torch

    from simplax.data.text.order import shuffled

    ranks = shuffled(torch.arange(documents), documents, _SEED).numpy()
    order = np.empty_like(ranks)
    order[ranks] = np.arange(documents)
    return order
