"""Counters of a server in the text format that Prometheus reads."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """Observations counted below each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str) -> list[str]:
        total, lines = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self.sum:.6f}", f"{name}_count {total}"]


class Metrics:
    """Everything that is counted; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.time()
        self._requests: dict[tuple[str, int], int] = {}
        self._seconds, self._batches = Histogram(_SECONDS), Histogram(_BATCHES)
        self._sequences = 0

    def request(self, route: str, status: int) -> None:
        with self._lock:
            self._requests[route, status] = self._requests.get((route, status), 0) + 1

    def job_ended(self, seconds: float, sequences: int) -> None:
        with self._lock:
            self._seconds.add(seconds)
            self._sequences += sequences

    def network_call(self, batch: int) -> None:
        with self._lock:
            self._batches.add(batch)

    def text(self, engine: Mapping[str, int]) -> str:
        """All of it, with the counts of the engine as they are now."""
        with self._lock:
            parts = [
                *_head("simplax_requests_total", "counter", "answers by route and status"),
                *(
                    f'simplax_requests_total{{route="{route}",status="{status}"}} {count}'
                    for (route, status), count in sorted(self._requests.items())
                ),
                *_head("simplax_job_seconds", "histogram", "from a request's arrival to its end"),
                *self._seconds.lines("simplax_job_seconds"),
                *_head("simplax_network_batch", "histogram", "sequences in a call of the network"),
                *self._batches.lines("simplax_network_batch"),
                *_head("simplax_sequences_total", "counter", "sequences of ended requests"),
                f"simplax_sequences_total {self._sequences}",
                *_head("process_cpu_seconds_total", "counter", "processor time of all threads"),
                f"process_cpu_seconds_total {time.process_time():.3f}",
            ]
        gauges = {
            "simplax_requests_waiting": ("requests that wait", engine["waiting"]),
            "simplax_requests_running": ("requests that are denoised", engine["running"]),
            "simplax_sequences_running": ("sequences that are denoised", engine["sequences"]),
            "process_resident_memory_bytes": ("memory in use", resident_bytes()),
            "process_start_time_seconds": ("when the server began", round(self._began, 3)),
        }
        for name, (what, value) in gauges.items():
            parts += [*_head(name, "gauge", what), f"{name} {value}"]
        return "\n".join(parts) + "\n"


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


def resident_bytes() -> int:
    """Memory of this process, 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
