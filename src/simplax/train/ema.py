"""The exponential moving average of the weights, used for validation and sampling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from simplax.methods.distillation import without_teacher
from simplax.train.sharded import local


class EMA:
    """A float32 shadow of every trained parameter: `shadow <- d shadow + (1 - d) weight` after each optimiser step.

    The published warm-up uses d = min(decay, (1 + n) / (10 + n)) at the n-th update, counted from 1, so that the
    initial weights are forgotten fast. The shadow starts as a copy of the weights.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module, self.decay, self.count = module, decay, 0
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        self._shadow = [p.detach().to(torch.float32, copy=True) for p in self._parameters]

    @torch.no_grad()
    def update(self) -> None:
        self.count += 1
        d = min(self.decay, (1 + self.count) / (10 + self.count))
        weights = [local(p.detach()).float() for p in self._parameters]
        torch._foreach_lerp_([local(s) for s in self._shadow], weights, 1.0 - d)

    def state_dict(self) -> dict[str, Tensor]:
        """The module's state with shadows in the place of parameters; buffers are the module's own.

        A teacher is no part of it.
        """
        shadow = {id(p): s for p, s in zip(self._parameters, self._shadow)}
        return {
            name: shadow.get(id(value), value)
            for name, value in without_teacher(self.module.state_dict(keep_vars=True)).items()
        }

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Inside, the module's parameters hold the averaged weights."""
        with torch.no_grad():
            kept = [local(p).clone() for p in self._parameters]
            for p, s in zip(self._parameters, self._shadow):
                local(p).copy_(local(s))
        _forget_gathered(self.module)
        try:
            yield
        finally:
            with torch.no_grad():
                for p, k in zip(self._parameters, kept):
                    local(p).copy_(k)
            _forget_gathered(self.module)


def _forget_gathered(module: nn.Module) -> None:
    """FSDP keeps the outermost weights gathered after a forward pass; the next one must gather them anew."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
