"""The denoiser of every method: state and time in, float32 logits out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from simplax.nn.architecture import Architecture
from simplax.nn.attention import Cache, Rotary, visible
from simplax.nn.cost import trunk_multiply_adds
from simplax.nn.inputs import (
    CarryNorm,
    GivenEmbedding,
    PositionEmbedding,
    State,
    TokenEmbedding,
    VectorProjection,
)
from simplax.nn.labels import LabelEmbedding
from simplax.nn.relations import RelationBias
from simplax.nn.transformer import Block, OutputLayer, Shared, SigmaMap, zero_linear

SIGMA_MAX = 20.0  # schedules with alpha(1) = 0 reach infinity; published ones stop at 14 or below


class Denoiser(nn.Module):
    """One transformer for diffusion and autoregression.

    `vocab_size` rows of the input embedding, `output_size` logits per position (as many unless said
    otherwise), of which the first `num_categories` are the data's (all of them unless said otherwise: published
    networks have an output for the mask too). `time` maps t to the noise level the network is conditioned on
    (usually a schedule's `sigma`);
    None means that it does not see the time, with the modulation kept as a learned constant, and
    `adaln=False` removes the modulation. `input="vectors"` reads vectors of `vector_size` instead of tokens.
    `autocast` is the dtype of matrix products and attention, None for float32; it is an attribute, and an
    autocast region around the call changes nothing.

    `forward == logits(features(...))`; a fused loss may use `features` and `head` and never hold all logits
    at once.
    """

    def __init__(
        self,
        vocab_size: int,
        length: int,
        architecture: Architecture,
        *,
        output_size: int | None = None,
        num_categories: int | None = None,
        time: Callable[[Tensor], Tensor] | None = None,
        adaln: bool = True,
        causal: bool = False,
        input: Literal["tokens", "vectors"] = "tokens",
        vector_size: int | None = None,
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if (input == "vectors") != (vector_size is not None):
            raise ValueError('give vector_size with input="vectors", and only then.')
        if time is not None and not adaln:
            raise ValueError("a denoiser without adaptive layer norm cannot see the time: leave `time` out.")
        self.vocab_size, self.length, self.architecture = vocab_size, length, architecture
        self.output_size = vocab_size if output_size is None else output_size
        self.num_categories = self.output_size if num_categories is None else num_categories
        self.time, self.causal, self.autocast = time, causal, autocast

        # registration order is the published one; what is ours comes last
        a = architecture
        cond_dim = a.cond_dim if adaln else None
        self.vocab_embed: nn.Module = (
            TokenEmbedding(vocab_size, a.width)
            if vector_size is None
            else VectorProjection(vector_size, a.width)
        )
        self.sigma_map = SigmaMap(cond_dim) if cond_dim is not None else None
        self.rotary_emb = Rotary(a.head_dim, length)
        self.blocks = nn.ModuleList(
            Block(a.width, a.heads, a.mlp_ratio, a.dropout, cond_dim, a.attention_cap) for _ in range(a.depth)
        )
        self.output_layer = OutputLayer(a.width, self.output_size, cond_dim)
        self.given_embed = GivenEmbedding(a.width) if a.given_embedding else None
        self.self_condition_map = (
            zero_linear(a.width, a.width, bias=False) if a.carry == "probabilities" else None
        )
        self.carry_norm = CarryNorm(a.width) if a.carry == "hidden" else None
        self.relation_bias = RelationBias(a.relations, length, a.depth, a.heads) if a.relations else None
        # without a conditioning vector, what the labels say is added to every token
        self.label_embed = LabelEmbedding(a.labels, cond_dim or a.width) if a.labels else None
        self.position_embed = PositionEmbedding(length, a.width) if a.position_embedding else None

    @property
    def head(self) -> nn.Linear:
        """The projection from features to logits, before the soft-cap."""
        return self.output_layer.linear

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
        """Transformer blocks that a sequence goes through in one call."""
        return len(self.blocks) * self.architecture.loops

    def multiply_adds(self, z: State, **keywords: Any) -> int:
        """Multiply-adds of the matrix products of a call with these arguments."""
        return trunk_multiply_adds(self, z, **keywords)

    def forward(
        self,
        z: State,
        t: Tensor | None = None,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        self_condition: State | None = None,
        carry: Tensor | None = None,
        labels: Tensor | None = None,
        cache: Cache | None = None,
        project: bool = True,
        last_only: bool = False,
        give_carry: bool = False,
        loops: int | None = None,
        every_loop: bool = False,
    ) -> Any:
        """Float32 logits (b, l, output_size), or the features if `project` is False; arguments as in `features`.

        A fused loss requests the features here, so that it goes through whatever is wrapped around the call.
        `last_only` leaves out all positions but the last; `give_carry` returns (result, hidden state) instead;
        `loops` replaces the architecture's number, and `every_loop` returns the results of all (loops, b, l, ...).
        """
        passed, cond = self._trunk(z, t, given, attend, self_condition, carry, labels, cache, loops)
        h = torch.stack(passed) if every_loop else passed[-1]
        with self._precision(self.autocast):
            features = self.output_layer(h[..., -1:, :] if last_only else h, cond)
        result = self.logits(features) if project else features
        return (result, passed[-1]) if give_carry else result

    def features(
        self,
        z: State,
        t: Tensor | None = None,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        self_condition: State | None = None,
        carry: Tensor | None = None,
        labels: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Hidden states (b, l, width), float32, after the final norm and modulation.

        `z` ids (b, l), atoms, a dense simplex state (b, l, k), or vectors. `t` (b,) in [0, 1]. `given` (b, l)
        marks clamped positions (read only by networks with a given embedding), `attend` (b, l) is False on
        padding, `self_condition` is the previous prediction in any form that `z` may take, `carry` the previous
        call's hidden state (each None at the first step), `labels` (b, labels) describe sequences (read only by
        networks that were built with labels), and with a `cache` the state holds only the tokens that
        follow those already read.
        """
        passed, cond = self._trunk(z, t, given, attend, self_condition, carry, labels, cache, None)
        with self._precision(self.autocast):
            return self.output_layer(passed[-1], cond)

    def _trunk(
        self,
        z: State,
        t: Tensor | None,
        given: Tensor | None,
        attend: Tensor | None,
        self_condition: State | None,
        carry: Tensor | None,
        labels: Tensor | None,
        cache: Cache | None,
        loops: int | None,
    ) -> tuple[list[Tensor], Tensor | None]:
        """The hidden state after each loop through the blocks, and the conditioning vector."""
        with self._precision(None):
            h = self._embed(z, given, self_condition, carry)
            cond = None if self.sigma_map is None else self.sigma_map(self._sigma(t, h.device))
            if self.label_embed is not None:
                described = self.label_embed(labels, h.device)
                h, cond = (h + described.unsqueeze(1), None) if cond is None else (h, cond + described)
        start = 0 if cache is None else cache.length
        stop = start + h.shape[1]
        self._check(stop, attend, cache)
        if self.position_embed is not None:
            h = self.position_embed(h, start)
        bias = None if self.relation_bias is None else self.relation_bias(start, stop)
        # the kernel's own triangular mask is fastest, but knows neither padding, nor a bias, nor a cap, nor a past
        plain = bias is None and self.architecture.attention_cap is None
        kernel_causal = self.causal and attend is None and plain and start == 0
        seen = None if kernel_causal else visible(start, stop, self.causal, attend, h.device)
        cos, sin = self.rotary_emb(start, stop)
        shared = Shared(cond, cos, sin, seen, kernel_causal)
        embedded, passed = h, []
        recompute = self.architecture.checkpointing and self.training and torch.is_grad_enabled()
        with self._precision(self.autocast):
            for loop in range(self.architecture.loops if loops is None else loops):
                h = embedded if loop == 0 else h + embedded
                for layer, block in enumerate(self.blocks):
                    layer_bias = None if bias is None else bias[layer]
                    if recompute:
                        h = checkpoint(block, h, shared, layer_bias, use_reentrant=False)
                    else:
                        h = block(h, shared, layer_bias, loop * len(self.blocks) + layer, cache)
                passed.append(h)
            if cache is not None:
                cache.advance(stop - start)
        return passed, cond

    def logits(self, features: Tensor) -> Tensor:
        """Float32 logits (b, l, output_size) of features, soft-capped if the architecture says so."""
        with self._precision(self.autocast):
            logits = self.head(features).float()
        cap = self.architecture.soft_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def new_cache(self, batch: int, loops: int | None = None) -> Cache:
        """An empty key-value cache for `batch` sequences of up to `length` tokens, for causal networks."""
        a, weight = self.architecture, self.head.weight
        shape = (a.depth * (loops or a.loops), batch, a.heads, self.length, a.head_dim)
        dtype = weight.dtype if self.autocast is None else self.autocast
        return Cache(*(torch.zeros(shape, dtype=dtype, device=weight.device) for _ in range(2)))

    def _embed(
        self, z: State, given: Tensor | None, self_condition: State | None, carry: Tensor | None
    ) -> Tensor:
        h: Tensor = self.vocab_embed(z)
        if self_condition is not None:
            if self.self_condition_map is None:
                raise ValueError('build the denoiser with carry="probabilities", or pass no prediction.')
            h = h + self.self_condition_map(self.vocab_embed(self_condition))
        if self.carry_norm is not None:
            h = self.carry_norm(h, carry)
        elif carry is not None:
            raise ValueError('build the denoiser with carry="hidden", or pass no hidden state.')
        return h if self.given_embed is None else self.given_embed(h, given)

    def _sigma(self, t: Tensor | None, device: torch.device) -> Tensor:
        """The noise level (b,), or one zero for the whole batch when the network does not see the time."""
        if self.time is None:
            return torch.zeros(1, device=device)
        if t is None:
            raise ValueError("this denoiser is conditioned on time: pass t of shape (batch,).")
        return self.time(t).float().clamp(max=SIGMA_MAX).reshape(-1)

    def _check(self, stop: int, attend: Tensor | None, cache: Cache | None) -> None:
        if stop > self.length:
            raise ValueError(f"{stop} positions are more than the {self.length} this denoiser was built for.")
        if cache is not None and not self.causal:
            raise ValueError("only a causal denoiser can use a cache: build it with causal=True.")
        if cache is not None and attend is not None:
            raise ValueError("a cache and padding do not mix: generate sequences of one length together.")

    def _precision(self, dtype: torch.dtype | None) -> torch.autocast:
        """Exactly this precision inside, whatever autocast region the caller is in."""
        device_type = self.head.weight.device.type
        return torch.autocast(device_type, dtype=dtype, enabled=dtype is not None)
