"""Processes started by torchrun: who we are, what we agree on, and how the network is wrapped."""

from __future__ import annotations

import gc
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from simplax.errors import UserError
from simplax.io.sharding import join, portable

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among all that train together. Every method is a collective: all processes call it."""

    rank: int
    size: int
    device: torch.device

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> Tensor:
        """The last axes of all processes' tensors, in the order of their ranks."""
        if self.size == 1:
            return values
        parts = [torch.empty_like(values) for _ in range(self.size)]
        dist.all_gather(parts, values.contiguous())
        return torch.cat(parts, dim=-1)

    def any(self, flag: bool) -> bool:
        """Whether it holds in any process; exchanged over the CPU, so that no GPU is waited for."""
        if self.size == 1:
            return flag
        votes = torch.tensor([int(flag)])
        dist.all_reduce(votes)
        return int(votes) > 0

    def on_main(self, action: Callable[[], T]) -> T:
        """Run `action` in the first process and hand its result, or its failure, to all of them."""
        if self.size == 1:
            return action()
        message: list[object] = [None, None]
        if self.main:
            try:
                message = [action(), None]
            except Exception as error:
                message = [None, portable(error)]
        dist.broadcast_object_list(message, src=0, device=torch.device("cpu"))
        if isinstance(message[1], BaseException):
            raise message[1]
        return message[0]  # type: ignore[return-value]

    def broadcast(self, module: nn.Module) -> None:
        """Give every process the weights and buffers of the first."""
        if self.size > 1:
            for tensor in [*module.parameters(), *module.buffers()]:
                dist.broadcast(tensor.detach(), src=0)


@contextmanager
def connect(device: str = "auto") -> Iterator[World]:
    """Join the processes that torchrun started; a single process needs no group."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    _check_launcher()
    place = pick_device(device)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if size == 1 and not dist.is_initialized():
        yield World(0, 1, place)
        return
    joined = dist.is_initialized()
    if not joined:
        join("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo")
    together = True
    try:
        yield World(dist.get_rank(), dist.get_world_size(), place)
    except (
        SystemExit
    ) as stop:  # that all processes agreed on; its traceback would keep what talks to the others
        traceback.clear_frames(stop.__traceback__)
        raise
    except BaseException:
        together = False
        raise
    finally:
        gc.collect()  # wrappers around the network talk to the others while they are taken down
        if together:  # a process that leaves while another still talks to it can abort that one
            dist.barrier()
        if not joined:
            dist.destroy_process_group()


def _check_launcher() -> None:
    """Refuse tasks that a scheduler started side by side: each would train the whole run by itself."""
    variables = os.environ
    tasks = variables.get("SLURM_STEP_NUM_TASKS") or variables.get("SLURM_NTASKS") or "1"
    if "WORLD_SIZE" in variables or "SLURM_PROCID" not in variables or not tasks.isdigit() or int(tasks) == 1:
        return
    raise UserError(
        f"SLURM started {tasks} tasks that know nothing of each other: ask for one task per node and start "
        "`torchrun --nproc-per-node GPUS -m simplax train ...` in it."
    )


def pick_device(device: str) -> torch.device:
    """`auto` is this process's own GPU if there is one, the CPU otherwise."""
    own = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if device == "auto":
        return torch.device(own if torch.cuda.is_available() else "cpu")
    place = torch.device(own if device == "cuda" else device)
    if place.type == "cuda" and not torch.cuda.is_available():
        raise UserError("device cuda was requested but this machine has no usable GPU: use --device cpu.")
    return place


def shard(denoiser: nn.Module, world: World) -> None:
    """FSDP2: split every block, and the rest of the network, over all processes, in place."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(world.device.type, (world.size,))
    for block in getattr(denoiser, "blocks", ()):
        fully_shard(block, mesh=mesh)
    # a fused loss reads the head after the forward pass, and the backward pass would gather all this again at once
    fully_shard(denoiser, mesh=mesh, reshard_after_forward=False)
    for entry in ("features", "logits"):  # losses may enter here instead of through forward
        if hasattr(denoiser, entry):
            register_fsdp_forward_method(denoiser, entry)


def forget_group(denoiser: nn.Module) -> None:
    """Let nothing that stays of split weights know their process group, whose threads could abort the process at exit.

    torch keeps meshes in its caches for good. While the group lives, a mesh finds it by name.
    """
    for mesh in {id(p): p.device_mesh for p in denoiser.parameters() if isinstance(p, DTensor)}.values():
        getattr(mesh, "_pg_registry", {}).clear()


def replicate(objective: nn.Module, world: World, has_unused: bool) -> nn.Module:
    """DDP around the loss as a whole, so that a method may call its network in any way it likes."""
    with warnings.catch_warnings():
        # newer torch has another name for it, which the oldest one we allow does not know
        warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
        return nn.parallel.DistributedDataParallel(
            objective,
            device_ids=None,
            broadcast_buffers=False,
            find_unused_parameters=has_unused,
            gradient_as_bucket_view=True,
        )
