"""The machine that computes a result, and the number format it has units for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

_UNITS = ("amx_bf16", "avx512_bf16", "bf16")  # the last is how ARM processors list it


def own_precision() -> str:
    """bfloat16 where the processor, or the GPU that would be used, computes in it; float32 elsewhere."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    try:
        flags = next(
            line.split(":", 1)[1].split()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.lower().startswith(("flags", "features"))
        )
    except (OSError, StopIteration, IndexError):
        return "float32"
    return "bfloat16" if any(unit in flags for unit in _UNITS) else "float32"


def machine() -> dict[str, Any]:
    """What computed a result: kind of processor, its cores, and the threads that were used."""
    import os
    import platform

    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"processor": name, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "gpu": gpu}
