"""What describes a sequence as a whole, classes and numbers, turned into one vector for the network."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplax.nn.transformer import zero_linear
from simplax.random import Keys


class ClassEmbedding(nn.Module):
    """A learned vector per class, and a last one that says there is no label."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.classes = classes
        self.weight = nn.Parameter(torch.randn(classes + 1, width))

    def forward(self, values: Tensor) -> Tensor:
        return F.embedding(values.nan_to_num(self.classes).long(), self.weight)


class NumberEmbedding(nn.Module):
    """A small MLP of a standardised number, and a learned vector that says there is none."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(1, width), nn.Linear(width, width)
        self.none = nn.Parameter(torch.randn(width))

    def forward(self, values: Tensor) -> Tensor:
        number = values.nan_to_num(0.0).unsqueeze(-1).to(self.none.dtype)
        made = self.outer(F.silu(self.inner(number)))
        # every parameter takes part whatever the batch holds, as training in several processes needs
        return torch.where(values.isnan().unsqueeze(-1), self.none, made)


class LabelEmbedding(nn.Module):
    """What the labels (batch, labels) of sequences say, as (batch, width): a sum, and a map that starts at zero.

    `sizes` has the number of classes of each label, 0 for a number. Not a number stands for no label.
    """

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            ClassEmbedding(size, width) if size else NumberEmbedding(width) for size in sizes
        )
        # a zero map of vectors that are not: nothing changes at first, and learning to read them starts at once
        self.map = zero_linear(width, width, bias=False)

    def forward(self, labels: Tensor | None, device: torch.device) -> Tensor:
        """One row for the whole batch if no sequence has labels."""
        count = len(self.parts)
        values = torch.full((1, count), torch.nan, device=device) if labels is None else labels.to(device)
        if values.ndim != 2 or values.shape[1] != count:
            raise ValueError(f"labels must have shape (batch, {count}), not {tuple(values.shape)}.")
        read = torch.stack([part(column) for part, column in zip(self.parts, values.unbind(1))]).sum(0)
        said: Tensor = self.map(read)
        return said


def drop_labels(labels: Tensor, share: float, keys: Keys) -> Tensor:
    """`labels` with all of them taken from a random `share` of the sequences, as guidance without a label needs.

    Where there are several, each is also taken away by itself with that chance from the other sequences, so that any
    of them may be left out when sampling.
    """
    u = keys.uniform(1 + labels.shape[1])
    gone = u[:, :1] < share
    if labels.shape[1] > 1:
        gone = gone | (u[:, 1:] < share)
    return labels.masked_fill(gone, torch.nan)
