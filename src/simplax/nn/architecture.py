"""What a user chooses about the network; what a method needs of it is not here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from simplax.errors import UserError
from simplax.nn.relations import RELATIONS


@dataclass(frozen=True)
class Architecture:
    """Shape and options of the trunk.

    `soft_cap` c replaces the logits l by c tanh(l / c), `attention_cap` does so with the scores of attention
    (FLM's published networks have 50). `given_embedding` marks for the network which positions
    are clamped. `carry` is what one call hands to the next: `none`, the predicted `probabilities`, or the `hidden`
    state of the last block (`simplax.nn.carry`). `relations` names an entry of
    `RELATIONS`: pairs of positions that attention may learn to prefer. `position_embedding` adds a learned vector to
    each position: rotary attention knows distances only, and cannot tell the first position of a string from others.
    `labels` are what the network reads about a whole sequence: the number of classes of each, 0 for a number; training
    hides them from a share `label_dropout` of the sequences, so that the network also knows what to do without.
    `checkpointing` recomputes each block in the backward pass, trading time for memory.

    `loops` is how often a call goes through the blocks, whose weights are tied between loops; before each of them the
    embedded input is added to the hidden state, which is zero at first. `loop_loss` trains on the prediction after
    every loop, the r-th of R weighted by r / R, `fewest_loops` on a number of loops drawn evenly between it and `loops`
    for each step. Every option but the caps and the loops starts as an exact no-op: none of those changes the network
    at initialisation.
    """

    width: int
    depth: int
    heads: int
    cond_dim: int = 128
    mlp_ratio: int = 4
    dropout: float = 0.0
    soft_cap: float | None = None
    attention_cap: float | None = None
    given_embedding: bool = False
    carry: Literal["none", "probabilities", "hidden"] = "none"
    relations: str | None = None
    position_embedding: bool = False
    labels: tuple[int, ...] = ()
    label_dropout: float = 0.1
    checkpointing: bool = False
    loops: int = 1
    loop_loss: bool = False
    fewest_loops: int | None = None

    def __post_init__(self) -> None:
        if min(self.width, self.depth, self.heads, self.cond_dim, self.mlp_ratio) < 1:
            raise UserError("width, depth, heads, cond_dim and mlp_ratio must all be at least 1.")
        if self.loops < 1 or (self.fewest_loops is not None and not 1 <= self.fewest_loops <= self.loops):
            raise UserError("loops must be at least 1, and fewest_loops between 1 and loops.")
        if self.loops == 1 and self.loop_loss:
            raise UserError("a loss at every loop needs more than one: set loops too.")
        if self.width % (2 * self.heads):
            raise UserError(
                f"width {self.width} must be a multiple of 2 x heads = {2 * self.heads}, "
                "because rotary positions turn pairs of coordinates within each head."
            )
        if not 0.0 <= self.dropout < 1.0:
            raise UserError(f"dropout must lie in [0, 1), not {self.dropout}.")
        if not 0.0 <= self.label_dropout < 1.0:
            raise UserError(f"label_dropout must lie in [0, 1), not {self.label_dropout}.")
        if any(size < 0 for size in self.labels):
            raise UserError("labels are numbers of classes, or 0 for a number: none of them is negative.")
        for name in ("soft_cap", "attention_cap"):
            cap = getattr(self, name)
            if cap is not None and cap <= 0.0:
                raise UserError(f"{name} must be positive, or None for no cap, not {cap}.")
        if self.carry not in ("none", "probabilities", "hidden"):
            raise UserError(f"carry must be none, probabilities or hidden, not {self.carry!r}.")
        if self.relations is not None and self.relations not in RELATIONS:
            raise UserError(
                f"unknown relations {self.relations!r}; choose one of {', '.join(sorted(RELATIONS))}."
            )

    @staticmethod
    def modernised(stored: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as older versions stored them, in today's names."""
        settings = dict(stored)
        if "self_conditioning" in settings:
            settings["carry"] = "probabilities" if settings.pop("self_conditioning") else "none"
        return settings

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


PRESETS: dict[str, Architecture] = {
    # published sizes: `tiny` is the Sudoku network, `small` and `medium` the text networks
    "tiny": Architecture(width=512, depth=8, heads=8, dropout=0.1),
    "small": Architecture(width=768, depth=12, heads=12, dropout=0.1),
    "medium": Architecture(width=1024, depth=24, heads=16, dropout=0.1),
    # sizes of our own that train on a laptop
    "cpu-nano": Architecture(width=64, depth=2, heads=2),
    "cpu-micro": Architecture(width=128, depth=6, heads=4),
    "cpu-mini": Architecture(width=256, depth=6, heads=4),
}
