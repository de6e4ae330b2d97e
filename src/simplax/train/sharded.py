"""Tensors that may be split over processes (FSDP2's DTensor), treated like whole ones."""

from __future__ import annotations

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def local(tensor: Tensor) -> Tensor:
    """This process's share, in place: writing to it writes to the tensor."""
    if isinstance(tensor, DTensor):
        return tensor.to_local()
    return tensor


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor where it is; every process must call it."""
    if isinstance(tensor, DTensor):
        return tensor.full_tensor()
    return tensor


def full(tensor: Tensor) -> Tensor:
    """The whole tensor on the CPU; every process must call it."""
    return whole(tensor).detach().cpu()


def shard_like(unsplit: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, which every process holds, split and placed as `like` is; one that is split stays as it is."""
    if isinstance(unsplit, DTensor):
        return unsplit
    unsplit = unsplit.to(like.device)
    if isinstance(like, DTensor):
        return distribute_tensor(unsplit, like.device_mesh, like.placements, src_data_rank=None)
    return unsplit
