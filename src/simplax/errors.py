"""One exception for everything a user can cause and put right, and the suggestion that ends its message."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class UserError(ValueError):
    """A mistake in what the user asked for; its message is one sentence that says what to do.

    The command line prints it without a traceback and exits with status 2.
    """


def nearest(word: str, choices: Sequence[str]) -> str:
    """The end of a sentence about an unknown word: `; did you mean ...?`, or all choices when none is close."""
    found = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else f"; choose one of {', '.join(sorted(choices))}."
