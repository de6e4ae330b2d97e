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
    "text": ["tokenizers"],
    "plot": ["matplotlib"],
    "sudoku": ["numba"],
    "eval": ["transformers", "gguf", "accelerate"],
    "serve": ["fastapi", "uvicorn"],
}


def main(arguments: list[str]) -> None:
    run(doctor, arguments, "simplax doctor")


def doctor(*, device: Device = "auto", json: Json = False) -> None:
    """What is installed, which device would be used, how fast it multiplies matrices, and what would be slow."""
    import torch

    from simplax.hub import bundled, place
    from simplax.train.checkpoint import versions
    from simplax.train.precision import matmul_rate

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
        "precision": max(rates, key=rates.__getitem__),
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
        if data["threads"] < data["cores"]:
            advice.append(f"torch uses {data['threads']} of {data['cores']} cores: unset OMP_NUM_THREADS.")
    if data["precision"] == "float32":
        advice.append("bfloat16 is slower than float32 here, so precision `auto` trains in float32.")
    missing = [name for name, there in data["extras"].items() if not there]
    if "sudoku" in missing:
        advice.append("without the sudoku extra the first 9x9 pool takes minutes instead of seconds.")
    if missing:
        advice.append(
            f'extras not installed: {", ".join(missing)}; add one with `pip install "simplax[NAME]"`.'
        )
    return advice


def _shown(data: dict[str, Any]) -> Any:
    flat = {
        **{name: version for name, version in data["versions"].items()},
        **{key: data[key] for key in ("platform", "device", "cores", "threads")},
        **{f"{name} matmul": f"{rate:,.0f} GFLOP/s" for name, rate in data["gflops"].items()},
        "precision auto": data["precision"],
        **{f"extra {name}": "installed" if there else "missing" for name, there in data["extras"].items()},
        "bundled models": ", ".join(data["models"]) or "none",
        **{f"note {number}": line for number, line in enumerate(data["advice"], 1)},
    }
    return facts(flat)
