"""Where data that were made once are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """`SIMPLAX_CACHE`, or `~/.cache/simplax`."""
    return Path(os.environ.get("SIMPLAX_CACHE") or Path.home() / ".cache" / "simplax")
