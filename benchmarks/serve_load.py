"""A running server under load: status codes, latencies, throughput and memory, and what batching gains.

`python benchmarks/serve_load.py gain` compares the throughput of many clients with that of one, and with what the bare
network gains from the same batch. `python benchmarks/serve_load.py load --clients 64 --seconds 600` keeps many clients
busy for a while and lists every status and the server's memory. Both start a server of their own on a free port.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import torch

import simplax

PUZZLE = "030028900000900040080005130000002609002890470001000002050000020900600780103004006"


@contextmanager
def server(*options: str) -> Iterator[str]:
    """The address of a new server."""
    command = [
        sys.executable,
        "-m",
        "simplax",
        "serve",
        "--model",
        "sudoku",
        "--port",
        "0",
        "--json",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait(60)


async def one_client(
    client: httpx.AsyncClient,
    number: int,
    steps: int,
    end: float,
    found: list[tuple[int, float]],
    patient: bool,
) -> None:
    """Requests one after the other until the time is over; told to wait, it waits as long as it was told."""
    seed = 10_000 * number
    while time.monotonic() < end:
        seed, began = seed + 1, time.monotonic()
        asked = {"puzzle": PUZZLE, "steps": steps, "seed": seed}
        answer = await client.post("/v1/sudoku/solve", json=asked)
        found.append((answer.status_code, time.monotonic() - began))
        if answer.status_code == 429 and patient:
            await asyncio.sleep(float(answer.headers["retry-after"]))


@dataclass(frozen=True)
class Measured:
    """Status and seconds of every request, the server's memory on the way, and its time: elapsed, of its processor."""

    found: list[tuple[int, float]]
    memory: list[int]
    seconds: float
    cpu: float


async def busy(url: str, clients: int, seconds: float, steps: int, patient: bool = True) -> Measured:
    found: list[tuple[int, float]] = []
    memory: list[int] = []
    limits = httpx.Limits(max_connections=clients + 1)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        cpu = await gauge(client, "process_cpu_seconds_total")
        began = time.monotonic()
        end = began + seconds
        work = asyncio.gather(*(one_client(client, n, steps, end, found, patient) for n in range(clients)))
        while not work.done():
            memory.append(int(await gauge(client, "process_resident_memory_bytes")))
            await asyncio.wait({work}, timeout=max(seconds / 20, 0.5))
        await work
        cpu = await gauge(client, "process_cpu_seconds_total") - cpu
        return Measured(found, memory, time.monotonic() - began, cpu)


async def gauge(client: httpx.AsyncClient, name: str) -> float:
    (value,) = re.findall(rf"^{name} ([\d.]+)$", (await client.get("/metrics")).text, re.M)
    return float(value)


def report(measured: Measured) -> dict[str, Any]:
    found, memory, seconds = measured.found, measured.memory, measured.seconds
    times = sorted(spent for status, spent in found if status == 200)
    good = len(times)
    return {
        "requests": len(found),
        "statuses": dict(sorted(Counter(status for status, _ in found).items())),
        "answers_per_second": round(good / seconds, 3),
        "answers_per_processor_second": round(good / measured.cpu, 3),
        "latency_seconds": {
            "median": round(statistics.median(times), 3),
            "p90": round(times[int(0.9 * (good - 1))], 3),
            "p99": round(times[int(0.99 * (good - 1))], 3),
        }
        if times
        else None,
        "memory_mib": {
            "first_quarter": round(statistics.mean(memory[1 : 1 + max(1, len(memory) // 4)]) / 2**20, 1),
            "last_quarter": round(statistics.mean(memory[-max(1, len(memory) // 4) :]) / 2**20, 1),
        },
        "seconds": round(seconds, 1),
    }


def bare_gain(batch: int, rounds: int) -> float:
    """How many times as many sequences per processor second the network reads in a batch."""
    model = simplax.from_pretrained("sudoku")
    ratios = []
    with torch.no_grad():
        for _ in range(rounds + 1):
            single, whole = (_seconds(model.denoiser, size) for size in (1, batch))
            ratios.append(batch * single / whole)
    return statistics.median(ratios[1:])


def _seconds(network: Any, batch: int) -> float:
    z, t = torch.randint(0, 9, (batch, 81)), torch.rand(batch)
    given = torch.zeros(batch, 81, dtype=torch.bool)
    count = max(1, 32 // batch)
    began = time.process_time()
    for _ in range(count):
        network(z, t, given=given)
    return (time.process_time() - began) / count


def gain(clients: int, seconds: float, steps: int, rounds: int) -> dict[str, Any]:
    """One client and many in turns, in processor time, which others on the machine do not change."""
    ratios, bare, one, many = [], [], {}, {}
    with server("--batch", str(clients), "--queue", str(2 * clients)) as url:
        asyncio.run(busy(url, 2, 1.0, steps))
        for _ in range(rounds):
            one = report(asyncio.run(busy(url, 1, seconds, steps)))
            many = report(asyncio.run(busy(url, clients, seconds, steps)))
            ratios.append(many["answers_per_processor_second"] / one["answers_per_processor_second"])
            bare.append(bare_gain(clients, 3))
    served, network = statistics.median(ratios), statistics.median(bare)
    return {
        "clients": clients,
        "steps": steps,
        "one_client": one,
        "many_clients": many,
        "gain_of_the_server": round(served, 3),
        "gain_of_the_network": round(network, 3),
        "share": round(served / network, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("gain", "load"))
    parser.add_argument("--clients", type=int, help="32 for gain, 64 for load")
    parser.add_argument("--seconds", type=float, help="20 for gain, 600 for load")
    parser.add_argument("--steps", type=int, default=20, help="network calls per request")
    parser.add_argument("--rounds", type=int, default=3, help="of gain")
    parser.add_argument("--impatient", action="store_true", help="do not wait after 429")
    parser.add_argument("--queue", type=int, default=24, help="requests that may wait, under load")
    options = parser.parse_args()
    if options.what == "gain":
        found = gain(options.clients or 32, options.seconds or 20.0, options.steps, options.rounds)
    else:
        with server("--queue", str(options.queue)) as url:
            clients, seconds = options.clients or 64, options.seconds or 600.0
            found = report(asyncio.run(busy(url, clients, seconds, options.steps, not options.impatient)))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
