"""What a call costs: multiply-adds of its matrix products, so that nobody hides depth or width inside a call.

Elementwise work, softmax, norms and weighted bags of embeddings are not counted; attention counts all pairs of
positions, also those that a mask leaves out. What the sequences of a call share counts for each of them, so that a
sequence costs the same in every batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from simplax.nn.inputs import State, TokenEmbedding, VectorProjection

if TYPE_CHECKING:
    from simplax.nn.attention import Cache
    from simplax.nn.denoiser import Denoiser


def linear_weights(*modules: nn.Module | None) -> int:
    """Entries of all matrices of linear layers in these modules: multiply-adds for each vector that passes them."""
    inside = (layer for module in modules if module is not None for layer in module.modules())
    return sum(layer.weight.numel() for layer in inside if isinstance(layer, nn.Linear))


def shape_of(z: State) -> tuple[int, int]:
    """Sequences and positions of a state."""
    ids = z if isinstance(z, Tensor) else z.ids
    return ids.shape[0], ids.shape[1]


def trunk_multiply_adds(
    denoiser: Denoiser,
    z: State,
    *,
    self_condition: State | None = None,
    cache: Cache | None = None,
    project: bool = True,
    last_only: bool = False,
    loops: int | None = None,
    every_loop: bool = False,
    **others: Any,
) -> int:
    """Multiply-adds of one call on the state `z`, all sequences together."""
    batch, positions = shape_of(z)
    loops = denoiser.architecture.loops if loops is None else loops
    attended = positions + (0 if cache is None else cache.length)
    output = denoiser.output_layer
    total = batch * linear_weights(denoiser.sigma_map, denoiser.label_embed, output.adaLN_modulation)
    for block in denoiser.blocks:
        modulation = linear_weights(block.adaLN_modulation)  # type: ignore[arg-type]
        total += loops * batch * (modulation + positions * (linear_weights(block) - modulation))
        total += loops * 2 * batch * positions * attended * denoiser.architecture.width
    if denoiser.relation_bias is not None:
        total += batch * denoiser.relation_bias.weight.numel() * positions * attended
    total += _embedding(denoiser.vocab_embed, z)
    if self_condition is not None:
        total += _embedding(denoiser.vocab_embed, self_condition)
        total += batch * positions * linear_weights(denoiser.self_condition_map)
    if project:
        shown = (loops if every_loop else 1) * (1 if last_only else positions)
        total += batch * shown * linear_weights(output.linear)
    return total


def _embedding(embed: nn.Module, z: State) -> int:
    batch, positions = shape_of(z)
    if isinstance(embed, VectorProjection):
        return batch * positions * linear_weights(embed)
    if isinstance(embed, TokenEmbedding) and isinstance(z, Tensor) and z.is_floating_point():
        return z.numel() * embed.embedding.shape[1]
    return 0
