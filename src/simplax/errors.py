"""One exception for everything a user can cause and put right."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake in what the user asked for; its message is one sentence that says what to do.

    The command line prints it without a traceback and exits with status 2.
    """
