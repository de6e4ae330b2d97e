"""What processes that train together say to each other, and whether they have parted at the end."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

COUNTS = "exchanged.json"


def counted(directory: Path | None) -> Any:
    """Inside, sums over processes are noted, with the number of elements of each, in `directory / COUNTS`."""
    return nullcontext() if directory is None else _counted(directory)


@contextmanager
def _counted(directory: Path) -> Iterator[None]:
    """By torch's profiler: what DDP and FSDP2 send from C++ is seen too."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as record:
        yield
    found: dict[str, list[int]] = {"all_reduce": [], "reduce_scatter": []}
    for event in record.events() or ():
        if event.name == "gloo:all_reduce":
            found["all_reduce"].append(math.prod(event.input_shapes[0]))
        elif event.name.startswith("c10d::_reduce_scatter_base"):
            found["reduce_scatter"].append(math.prod(event.input_shapes[1]))
    if dist.get_rank() == 0:
        (directory / COUNTS).write_text(json.dumps(found))


def assert_parted() -> None:
    """No thread of a process group is left: those of one that something still holds abort the process, now and then."""
    gc.collect()
    tasks = Path("/proc/self/task")
    names = [(one / "comm").read_text() for one in tasks.iterdir()] if tasks.is_dir() else []
    assert not [name for name in names if "gloo" in name], names
