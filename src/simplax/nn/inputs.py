"""From a noisy state to vectors of the network's width, whatever the state is made of."""

from __future__ import annotations

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AtomsLike(Protocol):
    """A sparse point of the simplex per position: `weights` (b, l, J) on the categories `ids` (b, l, J)."""

    @property
    def ids(self) -> Tensor: ...

    @property
    def weights(self) -> Tensor: ...


State = Tensor | AtomsLike


class TokenEmbedding(nn.Module):
    """w^T E for a state w: a vertex (ids), a few atoms, or a dense simplex vector."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocab_size, width))
        nn.init.kaiming_uniform_(self.embedding, a=math.sqrt(5))

    def forward(self, z: State) -> Tensor:
        if not isinstance(z, Tensor):
            return self._atoms(z)
        return self._dense(z) if z.is_floating_point() else self._ids(z)

    def _ids(self, ids: Tensor) -> Tensor:
        if ids.ndim != 2:
            raise ValueError(f"token ids must have shape (batch, length), not {tuple(ids.shape)}.")
        return F.embedding(ids.long(), self.embedding)

    def _atoms(self, atoms: AtomsLike) -> Tensor:
        """A weighted bag of J rows per position: no one-hot, no product with all K rows."""
        ids, weights = atoms.ids, atoms.weights.to(self.embedding.dtype)
        bags = F.embedding_bag(
            ids.flatten(0, -2), self.embedding, mode="sum", per_sample_weights=weights.flatten(0, -2)
        )
        return bags.view(*ids.shape[:-1], -1)

    def _dense(self, w: Tensor) -> Tensor:
        """The categories of w are the first rows: a prediction need not cover a mask token in the last."""
        rows, categories = self.embedding.shape[0], w.shape[-1]
        if w.ndim != 3 or categories > rows:
            raise ValueError(
                f"a dense state must have shape (batch, length, <= {rows} categories), not {tuple(w.shape)}."
            )
        return w.to(self.embedding.dtype) @ self.embedding[:categories]


class VectorProjection(nn.Module):
    """A linear map for states that are vectors (b, l, vector_size) rather than distributions."""

    def __init__(self, vector_size: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(vector_size, width)

    def forward(self, z: State) -> Tensor:
        size = self.projection.in_features
        if not isinstance(z, Tensor) or not z.is_floating_point() or z.ndim != 3 or z.shape[-1] != size:
            raise ValueError(f"this denoiser reads float vectors of shape (batch, length, {size}).")
        return self.projection(z.to(self.projection.weight.dtype))


class GivenEmbedding(nn.Module):
    """Adds one of two learned vectors: free or given. Zero at initialisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, width))

    def forward(self, h: Tensor, given: Tensor | None) -> Tensor:
        free, clamped = self.weight.unbind(0)
        return h + (free if given is None else torch.where(given.unsqueeze(-1), clamped, free))


class PositionEmbedding(nn.Module):
    """Adds a learned vector to each position. Zero at initialisation.

    Rotary attention sees distances only: to a network without this, sequences of one repeated token look the same from
    every place in them, and where a sequence begins must be found from its far end.
    """

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(length, width))

    def forward(self, h: Tensor, start: int) -> Tensor:
        """`start` is the place of the first of the positions in `h`."""
        return h + self.weight[start : start + h.shape[1]]


class CarryNorm(nn.Module):
    """Adds the layer norm of the previous call's hidden state. Zero at initialisation.

    The norm of an empty carry (zeros, or None) is the shift alone: a learned vector that says there is none.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, h: Tensor, carry: Tensor | None) -> Tensor:
        if carry is None:
            return h + self.bias
        return h + F.layer_norm(carry.float(), self.weight.shape, self.weight, self.bias)
