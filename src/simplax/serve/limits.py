"""How much one server and one request may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MOST_STEPS = 512
MOST_SEQUENCES = 16
MOST_CHARACTERS = 4000
MOST_SEED = 2**30 - 1
LARGEST_ETA = 1e6


@dataclass(frozen=True)
class Limits:
    """Limits of a running server. Those of a single request are in the schema, for everybody to read."""

    batch: int = 32
    """sequences that are denoised at the same time; the network reads them together"""
    queue: int = 64
    """requests that may wait; the next one is answered 429"""
    seconds: float = 120.0
    """a request that takes longer, waiting included, is stopped"""
    body: int = 65_536
    """bytes of a request"""
    upload_seconds: float = 10.0
    """a body must have arrived by then"""
    grace_seconds: float = 10.0
    """what is being denoised when the server is told to stop may go on for so long"""
