"""One exception for everything a user can cause and put right, and the suggestion that ends its message."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class UserError(ValueError):
    """A mistake in what the user requested; its message is one sentence that says what to do.

    The command line prints it without a traceback and exits with status 2.
    """


def nearest(word: str, choices: Sequence[str], otherwise: str | None = None) -> str:
    """The end of a sentence about an unknown word: `; did you mean ...?` if one of the choices is close to it.

    If none is, it is `otherwise`, or all choices if that is not given.
    """
    found = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    if found:
        return f"; did you mean {found[0]}?"
    return f"; choose one of {', '.join(sorted(choices))}." if otherwise is None else otherwise
