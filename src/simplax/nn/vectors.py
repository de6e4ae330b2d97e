"""Denoisers whose state is a vector per position, beside a table with one vector per category.

Each wraps the common trunk and owns what its method learns or tabulates about noise, so that checkpoints hold it. The
trunk reads vectors of its own width without a projection, and its embedding is the table.
"""

from __future__ import annotations

import abc
from typing import Any, cast

import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.nn.architecture import Architecture
from simplax.nn.denoiser import Denoiser
from simplax.nn.inputs import State, TokenEmbedding


class Table(nn.Module):
    """One learned vector per category; states are vectors already and pass as they are."""

    def __init__(self, embedding: nn.Parameter) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, z: State) -> Tensor:
        width = self.embedding.shape[-1]
        if not isinstance(z, Tensor) or not z.is_floating_point() or z.ndim != 3 or z.shape[-1] != width:
            raise ValueError(f"this denoiser reads float vectors of shape (batch, length, {width}).")
        return z.to(self.embedding.dtype)


def _as_told(level: Tensor) -> Tensor:
    return level


class VectorDenoiser(nn.Module, abc.ABC):
    """What denoisers of vectors share: `denoiser(z, t)` with `z` (batch, length, width).

    Train them with DDP: losses and samplers read the table outside the forward pass, where FSDP has split it.
    """

    def __init__(
        self, vocab_size: int, length: int, architecture: Architecture, *, extra_rows: int = 0
    ) -> None:
        super().__init__()
        self.vocab_size, self.output_size, self.length = vocab_size, vocab_size, length
        self.trunk = Denoiser(
            vocab_size + extra_rows, length, architecture, output_size=vocab_size, time=_as_told
        )
        self.trunk.vocab_embed = Table(cast(TokenEmbedding, self.trunk.vocab_embed).embedding)

    @abc.abstractmethod
    def rows(self) -> Tensor:
        """The vectors (K, width) of the categories, as the method uses them."""

    @abc.abstractmethod
    def level(self, t: Tensor) -> Tensor:
        """The number (batch,) that the trunk is conditioned on as its time."""

    @property
    def table(self) -> Tensor:
        """The embedding matrix itself."""
        embedding = cast(Table, self.trunk.vocab_embed).embedding
        if hasattr(embedding, "full_tensor"):
            raise UserError(
                "this method reads its embedding outside the network: train it with sharding ddp."
            )
        return embedding

    @property
    def architecture(self) -> Architecture:
        return self.trunk.architecture

    @property
    def blocks(self) -> nn.ModuleList:
        return self.trunk.blocks

    @property
    def carry(self) -> str:
        """What a call hands to the next."""
        return self.architecture.carry

    @property
    def label_dropout(self) -> float:
        """The share of training sequences whose labels are hidden."""
        return self.architecture.label_dropout

    @property
    def block_passes(self) -> int:
        return self.trunk.block_passes

    def multiply_adds(self, z: Any, **keywords: Any) -> int:
        """Those of the trunk, and the mean row of the last prediction."""
        previous = keywords.pop("self_condition", None)
        shown = z.vectors if hasattr(z, "vectors") else z
        if previous is None:
            return self.trunk.multiply_adds(shown, **keywords)
        total = self.trunk.multiply_adds(shown, self_condition=shown, **keywords)
        return total + int(previous.numel()) * self.table.shape[-1]

    @property
    def autocast(self) -> torch.dtype | None:
        return self.trunk.autocast

    @autocast.setter
    def autocast(self, dtype: torch.dtype | None) -> None:
        self.trunk.autocast = dtype

    def shown(self, z: Any) -> Tensor:
        """The vectors (batch, length, width) that the trunk reads for a state; the state itself unless overridden."""
        vectors: Tensor = z
        return vectors

    def previous(self, self_condition: Tensor) -> Tensor:
        """What the trunk reads of the last prediction: the mean row under probabilities (batch, length, K)."""
        return self_condition.to(self.table.dtype) @ self.rows()

    def forward(
        self,
        z: Any,
        t: Tensor,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        self_condition: Tensor | None = None,
        carry: Tensor | None = None,
        labels: Tensor | None = None,
        project: bool = True,
        give_carry: bool = False,
        loops: int | None = None,
        every_loop: bool = False,
    ) -> Any:
        """The trunk's logits, or what `Denoiser.forward` gives for the other keywords."""
        previous = None if self_condition is None else self.previous(self_condition)
        return self.trunk(
            self.shown(z),
            self.level(t),
            given=given,
            attend=attend,
            self_condition=previous,
            carry=carry,
            labels=labels,
            project=project,
            give_carry=give_carry,
            loops=loops,
            every_loop=every_loop,
        )
