"""What training costs before it begins: parameters, FLOP per step, bytes per device, days.

Weights are counted on a network without memory (torch's meta device). Two things depend on how a method calls its
network and are read off small networks of the same kind instead: how many sequences go through it, with gradients and
without, and how many bytes the backward pass keeps, which are linear in depth, width and vocabulary each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from simplax.methods import Method
from simplax.nn import Architecture
from simplax.nn.attention import as_on_gpus
from simplax.nn.network import SMALLEST_VOCABULARY, fusing
from simplax.objectives._fused_function import CHUNK_ELEMENTS
from simplax.random import Keys
from simplax.train.optimizer import Optimizer, is_block_matrix
from simplax.train.run import Run
from simplax.typing import Batch, StepContext

FLOAT = 4  # bytes of a weight, a gradient, a moment and an average: all are float32, whatever products are made in
_PER_SAMPLE = ("sigma_map", "adaLN")  # matrices that act on a sequence's time, not on its tokens
_COUNTED = 64  # sequences over which shares of calls are averaged


@dataclass(frozen=True)
class Weights:
    """`parameters` in all, `block` of them in the largest block; `tables` is bytes that are not trained.

    `token` are the weights that every token is multiplied with, `sample` those that every sequence is: embeddings are
    looked up and norms are vectors, so they are in neither. `moments` counts the optimizer's numbers; `looped_token`
    and `looped_sample` are the parts of `token` and `sample` that are in blocks.
    """

    parameters: int
    block: int
    blocks: int
    token: int
    sample: int
    moments: int
    tables: int
    looped_token: int = 0
    looped_sample: int = 0

    @property
    def outside(self) -> int:
        """Parameters of no block: embeddings, head, time."""
        return self.parameters - self.blocks


@dataclass(frozen=True)
class Calls:
    """Network calls per sequence of a training step: those differentiated, and those that are not."""

    differentiated: float
    forward_only: float


def weightless(method: Method, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
    """The denoiser with shapes and no values; with values where a method computes some while it is built."""
    try:
        with torch.device("meta"):
            return method.build(vocab_size, length, architecture)
    except (RuntimeError, NotImplementedError):
        return method.build(vocab_size, length, architecture)


def count_weights(denoiser: nn.Module, optimizer: Optimizer) -> Weights:
    named = {name: p for name, p in denoiser.named_parameters() if p.requires_grad}
    blocks = [sum(p.numel() for p in block.parameters()) for block in getattr(denoiser, "blocks", ())]
    matrices = {
        f"{name}.weight": module.weight.numel()
        for name, module in denoiser.named_modules()
        if isinstance(module, nn.Linear)
    }
    of_sample = {name: n for name, n in matrices.items() if any(part in name for part in _PER_SAMPLE)}
    sample = sum(of_sample.values())
    looped, looped_sample = (
        sum(number for name, number in some.items() if "blocks." in name) for some in (matrices, of_sample)
    )
    # Muon keeps one number per weight of a block's matrices, AdamW two of every other
    single = optimizer.name == "muon"
    return Weights(
        parameters=sum(p.numel() for p in named.values()),
        block=max(blocks, default=0),
        blocks=sum(blocks),
        token=sum(matrices.values()) - sample,
        sample=sample,
        moments=sum(p.numel() * (1 if single and is_block_matrix(n, p) else 2) for n, p in named.items()),
        tables=sum(b.numel() * b.element_size() for b in denoiser.buffers()),
        looped_token=looped - looped_sample,
        looped_sample=looped_sample,
    )


def flop_per_step(
    weights: Weights, calls: Calls, architecture: Architecture, length: int, sequences: int
) -> float:
    """6 N T + 12 d L W T for T tokens and their gradients; a call without gradients makes a third of it.

    N are the weights that a token is multiplied with: 2 N forward, 4 N backward. Attention multiplies each of the L
    positions of width W in each of d blocks with L others, twice: 4 d L W forward, 8 backward; causal attention counts
    in full, as is the custom. Matrices that act on a sequence's time add 6 N' per sequence. Recomputing blocks
    (`checkpointing`) makes a fourth pass through them. With loops, blocks count as often as they are passed, on average
    where the number is drawn. Norms, softmax and the loss are left out.
    """
    tokens = sequences * length
    fewest = architecture.fewest_loops
    loops = architecture.loops if fewest is None else (fewest + architecture.loops) / 2
    attention = 4 * loops * architecture.depth * length * architecture.width
    token, sample = (
        once + (loops - 1) * again
        for once, again in (
            (weights.token, weights.looped_token),
            (weights.sample, weights.looped_sample),
        )
    )
    forward = tokens * (2 * token + attention) + sequences * 2 * sample
    passes = 3 * calls.differentiated + calls.forward_only
    if architecture.checkpointing:
        passes += calls.differentiated
    return forward * passes


def days(flop: float, steps: int, devices: int, tflops: float, utilisation: float) -> float:
    """Days of a run whose devices reach this share of their best rate."""
    return flop * steps / (devices * tflops * 1e12 * utilisation) / 86_400


@dataclass(frozen=True)
class Memory:
    """Bytes on one device.

    `copies` are the bfloat16 copies of the matrices that a forward pass leaves for its backward pass; `gathered` is
    what FSDP2 puts together besides the device's own share.
    """

    weights: float
    copies: float
    gradients: float
    optimizer: float
    average: float
    gathered: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        return sum(vars(self).values())


def memory(
    weights: Weights,
    activations_per_sequence: float,
    logits: int,
    sequences: int,
    *,
    shards: int = 1,
    half: bool = False,
) -> Memory:
    """Under DDP (one shard) every device holds all; under FSDP2 its share, and gathered weights of two blocks (one is
    fetched while the other computes), of the part outside the blocks, and the gradient of the larger of the two.

    `sequences` and `logits` are those of a micro-batch; the fused loss holds a chunk of logits, about three times over.
    `half` is for products in bfloat16.
    """
    gathered = weights.outside + 2 * weights.block + max(weights.outside, weights.block)
    return Memory(
        weights=FLOAT * weights.parameters / shards + weights.tables,
        copies=FLOAT / 2 * (weights.token + weights.sample) if half else 0.0,
        gradients=FLOAT * weights.parameters / shards,
        optimizer=FLOAT * weights.moments / shards,
        average=FLOAT * weights.parameters / shards,
        gathered=FLOAT * gathered if shards > 1 else 0.0,
        activations=activations_per_sequence * sequences,
        logits=3 * FLOAT * min(logits, CHUNK_ELEMENTS),
    )


def count_calls(method: Method, architecture: Architecture, length: int) -> Calls:
    """How a training step of `method` calls its network, counted on a small one; a call with loops is one call."""
    once = replace(architecture, loops=1, loop_loss=False, fewest_loops=None)
    denoiser = _small(method, length, once, depth=1, width=1, vocabulary=16)
    sequences = {True: 0, False: 0}

    def count(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        sequences[torch.is_grad_enabled()] += len(output)

    first: nn.Module = denoiser.blocks[0]  # type: ignore[index,assignment]
    with first.register_forward_hook(count):
        _loss(method, denoiser, length, 16, _COUNTED)
    return Calls(sequences[True] / _COUNTED, sequences[False] / _COUNTED)


def activations(
    method: Method,
    vocab_size: int,
    length: int,
    architecture: Architecture,
    dtype: torch.dtype | None,
) -> float:
    """Bytes per sequence that the backward pass keeps, without weights: an estimate.

    They are linear in depth, width and vocabulary each, so eight small networks decide it for every other one. Without
    the fused loss, which large vocabularies have, logits are kept too.
    """
    plain = replace(architecture, checkpointing=False)
    unit = _small_width(architecture)
    with fusing(1 if vocab_size >= SMALLEST_VOCABULARY else None):
        corners = {
            (depth, width, vocabulary): _saved(method, length, plain, depth, width, vocabulary, dtype)
            for depth, width, vocabulary in itertools.product((1, 2), (1, 2), (16, 32))
        }
    at = (float(architecture.depth), architecture.width / unit, float(vocab_size))
    if not architecture.checkpointing:
        return _multilinear(corners, at)
    # the input of every block is kept, and one block at a time is computed again
    one = _multilinear(corners, (1.0, *at[1:]))
    return one + (architecture.depth - 1) * FLOAT * length * architecture.width


def _multilinear(corners: dict[tuple[int, int, int], float], at: tuple[float, float, float]) -> float:
    """The function that is linear in each of three variables and has these values at eight points."""
    sides = [sorted({corner[axis] for corner in corners}) for axis in range(3)]
    total = 0.0
    for corner, value in corners.items():
        shares = (
            (x - low) / (high - low) if c == high else (high - x) / (high - low)
            for x, c, (low, high) in zip(at, corner, sides)
        )
        total += value * math.prod(shares)
    return total


def _small_width(architecture: Architecture) -> int:
    return 4 * architecture.heads


def _small(
    method: Method, length: int, architecture: Architecture, depth: int, width: int, vocabulary: int
) -> nn.Module:
    shape = replace(architecture, depth=depth, width=width * _small_width(architecture), cond_dim=8)
    with torch.random.fork_rng(devices=[]):
        return method.build(vocabulary, length, shape).train()


def _loss(method: Method, denoiser: nn.Module, length: int, vocabulary: int, sequences: int) -> Tensor:
    """The loss of a batch of arbitrary tokens."""
    numbers = torch.arange(sequences)
    tokens = (numbers[:, None] * 7 + torch.arange(length)) % vocabulary
    clear = torch.zeros_like(tokens, dtype=torch.bool)
    batch = Batch(tokens, clear, ~clear)
    u = (numbers + 0.5).double() / sequences
    context = StepContext(Keys.from_seeds(numbers), u, step=1_000_000_000)
    with torch.random.fork_rng(devices=[]):
        return method.loss(denoiser, batch, context).per_token.sum()


def _saved(
    method: Method,
    length: int,
    architecture: Architecture,
    depth: int,
    width: int,
    vocabulary: int,
    dtype: torch.dtype | None,
) -> float:
    """Bytes that autograd keeps on a GPU for the backward pass of one sequence, each piece of memory once."""
    denoiser = _small(method, length, architecture, depth, width, vocabulary)
    if hasattr(denoiser, "autocast"):
        setattr(denoiser, "autocast", dtype)  # noqa: B010
    own = {tensor.untyped_storage().data_ptr() for tensor in _tensors(denoiser)}
    pieces: dict[int, int] = {}
    kept: list[Tensor] = []  # while they are here no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            pieces[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)
        return tensor

    sequences = 2
    with saved_tensors_hooks(pack, lambda tensor: tensor), as_on_gpus():
        _loss(method, denoiser, length, vocabulary, sequences)
    copies = sum(2 * p.numel() for p in denoiser.parameters()) if dtype is not None else 0
    return max(sum(pieces.values()) - copies, 0) / sequences


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


@dataclass(frozen=True)
class TrainingCost:
    """All of it for one run, and what follows for a number of devices; `activations` are bytes per sequence."""

    weights: Weights
    calls: Calls
    flop_per_step: float
    activations: float
    run: Run
    length: int
    vocab_size: int

    @property
    def tokens(self) -> int:
        return self.run.batch_size * self.length

    def on(self, devices: int, *, sharded: bool, accumulate: int | None = None) -> Memory:
        """Bytes per device at the run's accumulation, or at another."""
        parts = devices * (accumulate or self.run.accumulate)
        sequences = math.ceil(self.run.batch_size / parts)
        split = sharded and devices > 1
        return memory(
            self.weights,
            self.activations,
            sequences * self.length * self.vocab_size,
            sequences,
            shards=devices if split else 1,
            half=self.run.precision == "bfloat16",
        )

    def accumulation(self, devices: int, budget: float, *, sharded: bool) -> int | None:
        """The fewest micro-batches with which a step fits `budget` bytes per device; None if none does."""
        share, rest = divmod(self.run.batch_size, devices)
        fitting = (
            number
            for number in range(1, share + 1)
            if not rest
            and share % number == 0
            and self.on(devices, sharded=sharded, accumulate=number).total <= budget
        )
        return next(fitting, None)


def training_cost(
    method: Method, vocab_size: int, length: int, architecture: Architecture, run: Run
) -> TrainingCost:
    """The cost of training `method` as `run` says; nothing of the size of the network is allocated."""
    weights = count_weights(weightless(method, vocab_size, length, architecture), run.optimizer)
    calls = count_calls(method, architecture, length)
    dtype = torch.bfloat16 if run.precision == "bfloat16" else None
    return TrainingCost(
        weights,
        calls,
        flop_per_step(weights, calls, architecture, length, run.batch_size),
        activations(method, vocab_size, length, architecture, dtype),
        run,
        length,
        vocab_size,
    )
