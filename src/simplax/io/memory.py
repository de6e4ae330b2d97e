"""How much memory has been in use."""

from __future__ import annotations

import sys

import torch


def peak_memory(device: torch.device) -> int:
    """The most bytes that were in use at once so far: on the GPU, or by this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
