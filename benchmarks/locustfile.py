r"""Load from locust, a load generator of its own: `pip install locust` apart from simplax, then with a running server

    simplax serve --model sudoku --queue 24
    locust --locustfile benchmarks/locustfile.py --headless --only-summary --users 64 --spawn-rate 16 --run-time 10m \
      --host http://127.0.0.1:8000

Each user solves one puzzle after the other. Told 429, a user waits as long as it was told; any other status but 200
is a failure. At the end a line of JSON has the statuses, the latency of answers and the server's memory on the way.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections import Counter
from typing import Any

import gevent
import requests
from locust import HttpUser, events, task

PUZZLE = "030028900000900040080005130000002609002890470001000002050000020900600780103004006"
STEPS = 10
SEEDS = itertools.count()
statuses: Counter[int] = Counter()
seconds: list[float] = []
memory: list[int] = []


class Solver(HttpUser):
    @task
    def solve(self) -> None:
        asked = {"puzzle": PUZZLE, "steps": STEPS, "seed": next(SEEDS)}
        with self.client.post("/v1/sudoku/solve", json=asked, catch_response=True, timeout=300) as answer:
            statuses[answer.status_code] += 1
            if answer.status_code == 200:
                seconds.append(answer.elapsed.total_seconds())
            elif answer.status_code == 429:
                answer.success()
                gevent.sleep(float(answer.headers["retry-after"]))
            else:
                answer.failure(f"status {answer.status_code}")


@events.test_start.add_listener
def watch_memory(environment: Any, **_: Any) -> None:
    def watch() -> None:
        while True:
            found = re.findall(
                r"^process_resident_memory_bytes (\d+)",
                requests.get(f"{environment.host}/metrics").text,
                re.M,
            )
            memory.append(int(found[0]))
            gevent.sleep(10)

    gevent.spawn(watch)


@events.quitting.add_listener
def report(**_: Any) -> None:
    times, quarter = sorted(seconds), max(1, len(memory) // 4)
    print(
        json.dumps(
            {
                "statuses": dict(statuses),
                "median_seconds": round(statistics.median(times), 2) if times else None,
                "p99_seconds": round(times[int(0.99 * (len(times) - 1))], 2) if times else None,
                "memory_mib_quarters": [
                    round(statistics.mean(memory[i : i + quarter]) / 2**20, 1)
                    for i in range(0, 4 * quarter, quarter)
                    if memory[i : i + quarter]
                ],
            }
        )
    )
