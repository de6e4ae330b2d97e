"""What the machine does to the speed of training on a CPU: cores that are shared, memory that is fetched anew."""

from __future__ import annotations

import os
import statistics
import time

import torch

from simplax.train.precision import matmul_rate

ALLOCATOR = "MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456"
_ELEMENTS = 2**24  # 64 MiB: what a batch of logits takes, and far beyond the caches


def thread_speedup(seconds: float = 0.2) -> float:
    """How much faster all of torch's threads multiply matrices than one does, in two turns each."""
    threads, device = torch.get_num_threads(), torch.device("cpu")
    best = {1: 0.0, threads: 0.0}
    try:
        for _ in range(2):
            for count in best:
                torch.set_num_threads(count)
                best[count] = max(best[count], matmul_rate(torch.float32, device, seconds=seconds / 4))
    finally:
        torch.set_num_threads(threads)
    return best[threads] / best[1]


def allocation_cost(rounds: int = 7) -> float:
    """Filling a large new tensor over filling one that exists: 1 where the allocator keeps memory it was given back."""
    kept, fresh, reused = torch.empty(_ELEMENTS), [], []
    for _ in range(rounds):
        start = time.perf_counter()
        torch.empty(_ELEMENTS).fill_(1.0)
        middle = time.perf_counter()
        kept.fill_(1.0)
        fresh.append(middle - start)
        reused.append(time.perf_counter() - middle)
    return statistics.median(fresh) / statistics.median(reused)


def load() -> float | None:
    """Runnable processes, averaged over the last minute; None where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
