"""Tensors that are split over processes, on disk: each process writes its own share, and any number of them reads it.

torch.distributed.checkpoint does the work, in safetensors files that any program can read; nothing is pickled, and no
process ever holds the whole.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from simplax.errors import UserError
from simplax.io.files import sha256, sync
from simplax.train.distributed import World


def write(folder: Path, parts: dict[str, dict[str, Tensor]], world: World) -> dict[str, str]:
    """Write every part to a directory of its name below `folder`; the digests of all files, by relative path.

    Every process calls it; each writes, syncs and hashes its own files once.
    """
    mine: dict[str, str] = {}
    for part, tensors in parts.items():
        try:
            writer = dcp.HuggingFaceStorageWriter(str(folder / part), save_distributed=True)
            dcp.save(dict(tensors), storage_writer=writer)
        except CheckpointException as error:
            reasons = [
                str(reason[0]).strip() or type(reason[0]).__name__ for reason in error.failures.values()
            ]
            raise OSError(reasons[0].splitlines()[0]) from error
        for file in sorted((folder / part).glob(f"shard-{world.rank + 1:05d}-*")):
            sync(file)
            mine[f"{part}/{file.name}"] = sha256(file)
    everybody: list[dict[str, str]] = [{} for _ in range(world.size)]
    dist.all_gather_object(everybody, mine)
    return {name: digest for one in everybody for name, digest in sorted(one.items())}


def shapes(folder: Path) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """What is stored in the files of one part."""
    try:
        found = dcp.HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
        return {name: (tuple(one.size), one.properties.dtype) for name, one in found.items()}  # type: ignore[union-attr]
    except Exception as error:  # the reader has no errors of its own
        raise UserError(f"{folder} is not readable: {_first_line(error)}.") from None


def read_whole(folder: Path) -> dict[str, Tensor]:
    """All tensors of one part, unsplit, in this process alone."""
    tensors = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes(folder).items()}
    _load(folder, tensors, alone=True)
    return tensors


def read_into(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Fill tensors that may be split over other processes than wrote them; all processes call it."""
    _load(folder, tensors, alone=False)


def _load(folder: Path, tensors: dict[str, Tensor], alone: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        try:
            dcp.load(tensors, storage_reader=dcp.HuggingFaceStorageReader(str(folder)), no_dist=alone)
        except CheckpointException as error:
            raise UserError(f"{folder} is not readable: {_first_line(error)}.") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
