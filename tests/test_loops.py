"""Networks whose calls go through their blocks several times, and what a call costs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from simplax import recipes
from simplax.config import from_json, to_json
from simplax.errors import UserError
from simplax.methods import METHODS, UDLM, Method, Simplax
from simplax.methods.loops import drawn_loops, training_loss
from simplax.nn import Architecture, Denoiser, Network, fusing
from simplax.nn.llama import LlamaDenoiser, LlamaShape
from simplax.nn.transformer import Shared
from simplax.pretrained import from_pretrained
from simplax.random import Keys
from simplax.recipes.launch import launch
from simplax.samplers import sample
from simplax.schedules import LogLinear
from simplax.times import stratified
from simplax.train import Optimizer
from simplax.train.cost import Calls, count_weights, flop_per_step
from simplax.typing import Batch, StepContext
from test_joints import randomised

K, L, B = 7, 6, 3
PLAIN = Architecture(width=16, depth=2, heads=2, cond_dim=8)
LOOPED = replace(PLAIN, loops=3)
TOKENS = Keys.from_seeds(range(B)).randint(K, L)
TIMES = torch.tensor([0.2, 0.5, 0.9])


def context(step: int = 0) -> StepContext:
    return StepContext(Keys.from_seeds(range(B)), stratified(B, 0, 0), step)


def network(architecture: Architecture, **options: Any) -> Denoiser:
    torch.manual_seed(0)
    denoiser = randomised(Denoiser(K, L, architecture, time=LogLinear().sigma, **options))
    assert isinstance(denoiser, Denoiser)
    return denoiser


def by_hand(denoiser: Denoiser, loops: int, h_previous: Tensor | None = None) -> Tensor:
    """h <- Blocks(h + E(x)) from h = 0, then the output layer."""
    embedded = denoiser._embed(TOKENS, None, None, h_previous)
    assert denoiser.sigma_map is not None
    cond = denoiser.sigma_map(denoiser._sigma(TIMES, embedded.device))
    shared = Shared(cond, *denoiser.rotary_emb(0, L), None, False)
    bias = None if denoiser.relation_bias is None else denoiser.relation_bias(0, L)
    h = torch.zeros_like(embedded)
    for _ in range(loops):
        h = h + embedded
        for layer, block in enumerate(denoiser.blocks):
            h = block(h, shared, None if bias is None else bias[layer])
    logits: Tensor = denoiser.head(denoiser.output_layer(h, cond))
    return logits


# the network


@pytest.mark.parametrize(
    "options", [{}, {"carry": "hidden", "given_embedding": True}, {"checkpointing": True}]
)
def test_a_looped_call_is_its_blocks_applied_by_hand(options: dict[str, Any]) -> None:
    looped = network(replace(LOOPED, **options))
    h = torch.randn(B, L, 16) if "carry" in options else None
    known = {} if h is None else {"carry": h}
    for mode in (looped.eval(), looped.train()):
        torch.testing.assert_close(mode(TOKENS, TIMES, **known), by_hand(looped, 3, h))
        torch.testing.assert_close(mode(TOKENS, TIMES, loops=5, **known), by_hand(looped, 5, h))
    every = looped(TOKENS, TIMES, every_loop=True, **known)
    assert every.shape == (3, B, L, K)
    for number in range(3):
        torch.testing.assert_close(every[number], by_hand(looped, number + 1, h))


def test_one_loop_is_the_network_without_loops_bit_for_bit() -> None:
    plain, looped = network(PLAIN), network(LOOPED)
    assert plain.state_dict().keys() == looped.state_dict().keys()
    looped.load_state_dict(plain.state_dict())
    assert torch.equal(plain(TOKENS, TIMES), by_hand(plain, 1))
    assert torch.equal(plain(TOKENS, TIMES), looped(TOKENS, TIMES, loops=1))
    assert not torch.allclose(plain(TOKENS, TIMES), looped(TOKENS, TIMES))


def test_a_causal_network_with_a_cache_loops_too() -> None:
    causal = network(LOOPED, causal=True)
    whole = causal(TOKENS, TIMES)
    cache = causal.new_cache(B)
    parts = [causal(TOKENS[:, start:stop], TIMES, cache=cache) for start, stop in ((0, 3), (3, 4), (4, L))]
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ({"loops": 0}, {"loop_loss": True}, {"loops": 3, "fewest_loops": 4}, {"fewest_loops": 0}):
        with pytest.raises(UserError, match="loop"):
            replace(PLAIN, **wrong)  # type: ignore[arg-type]
    arguments: dict[str, Any] = {
        "sampler": UDLM().sampler(),
        "schedule": LogLinear(),
        "num_steps": 1,
        "vocab_size": K,
    }
    with pytest.raises(ValueError, match="leave loops out"):
        sample(lambda z, t: torch.zeros(*z.shape, K), (1, L), loops=2, **arguments)
    with pytest.raises(ValueError, match="at least 1"):
        sample(network(LOOPED), (1, L), loops=0, **arguments)


def test_stored_settings_without_loops_are_those_of_one_loop() -> None:
    config = recipes.get("toy-udlm")
    stored = to_json(config)
    for name in ("loops", "loop_loss", "fewest_loops"):
        del stored["architecture"][name]
    assert from_json(stored) == config and config.architecture.loops == 1


# training


def objective(method: Method, denoiser: nn.Module, number: int) -> Tensor:
    """The loss of a call that makes so many loops."""
    return method.loss(Network(denoiser, K, number), Batch.of(TOKENS), context()).per_token.sum()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_a_loss_at_every_loop_is_the_weighted_sum_of_theirs(name: str, fused: bool) -> None:
    method: Any = METHODS[name]()
    if name == "langflow":  # a first call would make as many loops as the second
        method = replace(method, self_conditioning=0.0)
    denoiser = randomised(method.build(K, L, replace(LOOPED, loop_loss=True)))
    with fusing(1 if fused else None):
        loss = training_loss(method, denoiser, Batch.of(TOKENS), context())
        plain = method.loss(denoiser, Batch.of(TOKENS), context())
        # what is reported is the loss after the last loop
        torch.testing.assert_close(loss.per_token, plain.per_token)
        own = torch.zeros(()) if plain.auxiliary is None else plain.auxiliary
        assert loss.auxiliary is not None
        found = loss.per_token.sum() + loss.auxiliary - own
        wanted = sum(number / 3 * objective(method, denoiser, number) for number in (1, 2, 3))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        weights = [p for n, p in denoiser.named_parameters() if "blocks" in n and p.dim() > 1]
        ours, theirs = (torch.autograd.grad(value, weights, retain_graph=True) for value in (found, wanted))
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()) + 1e-6)


def test_with_a_carry_only_calls_that_are_trained_are_scored_at_every_loop() -> None:
    """A first call leaves the state of its last loop, and in a chain each call has losses of its own."""
    for method in (UDLM(), UDLM(rollout=2), Simplax(rollout=3, gradient_calls=2)):
        denoiser = randomised(method.build(K, L, replace(LOOPED, carry="hidden", loop_loss=True)))
        loss = training_loss(method, denoiser, Batch.of(TOKENS), context())
        plain = method.loss(denoiser, Batch.of(TOKENS), context())
        torch.testing.assert_close(loss.per_token, plain.per_token)
        assert loss.auxiliary is not None and float(loss.auxiliary.detach()) > 0
        (loss.per_token.sum() + loss.auxiliary).backward()
        assert all(parameter.grad is not None for parameter in denoiser.parameters())


def test_the_number_of_loops_of_a_step_is_drawn_evenly_and_from_the_step_alone() -> None:
    architecture = replace(PLAIN, loops=4, fewest_loops=2)
    drawn = [drawn_loops(architecture, step) for step in range(600)]
    assert drawn == [drawn_loops(architecture, step) for step in range(600)]
    shares = [drawn.count(number) / 600 for number in (2, 3, 4)]
    assert sum(shares) == 1 and shares == pytest.approx([1 / 3] * 3, abs=0.08)
    method, denoiser = UDLM(), network(architecture)
    for step in range(6):
        loss = training_loss(method, denoiser, Batch.of(TOKENS), context(step))
        number = drawn_loops(architecture, step)
        wanted = method.loss(Network(denoiser, K, number), Batch.of(TOKENS), context(step))
        torch.testing.assert_close(loss.per_token, wanted.per_token)
        assert loss.auxiliary is None


def test_compiled_networks_loop_too() -> None:
    method, denoiser = UDLM(), network(replace(LOOPED, loop_loss=True, carry="hidden"))
    compiled: Any = torch.compile(denoiser, backend="eager")
    values = [training_loss(method, each, Batch.of(TOKENS), context()) for each in (denoiser, compiled)]
    torch.testing.assert_close(values[0].auxiliary, values[1].auxiliary)


def test_a_run_with_loops_is_trained_resumed_exported_and_sampled(tmp_path: Path) -> None:
    config = recipes.smoke(recipes.get("toy-simplax"))
    architecture = replace(
        config.architecture, loops=3, loop_loss=True, fewest_loops=2, carry="hidden", depth=1
    )
    config = replace(config, architecture=architecture)
    launch(config, tmp_path / "whole", quiet=True)
    launch(replace(config, run=replace(config.run, steps=3)), tmp_path / "cut", quiet=True)
    launch(config, tmp_path / "cut", quiet=True)
    models = [from_pretrained(tmp_path / name, device="cpu") for name in ("whole", "cut")]
    states = [model.denoiser.state_dict() for model in models]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    model = from_pretrained(models[0].save_pretrained(tmp_path / "out"), device="cpu")
    drawn = model.sample(4, seeds=0, num_steps=5)
    assert drawn.nfe == 5 and drawn.block_passes == 15
    more = model.sample(4, seeds=0, num_steps=5, loops=6)
    assert more.nfe == 5 and more.block_passes == 30
    assert 1.8 * drawn.multiply_adds < more.multiply_adds < 2 * drawn.multiply_adds
    settled = replace(model, config=replace(config, sampling=replace(config.sampling, loops=6)))
    assert torch.equal(settled.sample(4, seeds=0, num_steps=5).tokens, more.tokens)


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_two_processes_loop_as_one_does(tmp_path: Path, sharding: str) -> None:
    flags = {
        "run.steps": 4,
        "run.batch_size": 16,
        "run.log_every": 1,
        "run.save_every": 4,
        "run.validate_every": 0,
    }
    flags |= {"architecture.loops": 3, "architecture.loop_loss": "true", "architecture.fewest_loops": 2}
    flags |= {"architecture.carry": "hidden", "run.sharding": sharding}
    several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    losses = []
    for name, start in (("one", []), ("two", several)):
        command = [sys.executable, *start, "-m", "simplax", *(["--"] if start else []), "train", "toy-udlm"]
        command += [part for flag, value in flags.items() for part in (f"--{flag}", str(value))]
        command += ["--out", str(tmp_path / name), "--device", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        losses.append([row["loss"] for row in rows if "loss" in row])
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], rel=1e-4)


# costs


def counted(denoiser: nn.Module, *arguments: Any, **keywords: Any) -> int:
    """Multiply-adds as torch counts them; it does not know all of the fused kernels of attention."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        denoiser(*arguments, **keywords)
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2


@pytest.mark.parametrize("carry", ["none", "probabilities", "hidden"])
@pytest.mark.parametrize("name", [name for name in METHODS if name != "ar"])
def test_multiply_adds_are_those_that_torch_counts(name: str, carry: str) -> None:
    """Every call of a chain of one sequence, with what it is shown; more of them cost as many times that."""
    method: Any = METHODS[name]()
    denoiser: Any = method.build(K, L, replace(PLAIN, carry=carry, loops=2)).eval()
    made: list[tuple[Any, Any]] = []
    handle = denoiser.register_forward_pre_hook(
        lambda module, arguments, keywords: made.append((arguments, keywords)), with_kwargs=True
    )
    drawn = sample(
        denoiser, (1, L), sampler=method.sampler(), process=method.process(denoiser), num_steps=3, vocab_size=K,
        seeds=[0],
    )  # fmt: skip
    handle.remove()
    total = sum(counted(denoiser, *arguments, **keywords) for arguments, keywords in made)
    assert drawn.multiply_adds == total > 0
    assert drawn.block_passes == 4 * len(made) == 4 * drawn.nfe
    assert drawn.work() == {"nfe": drawn.nfe, "block_passes": drawn.block_passes, "multiply_adds": total}
    for state, *_ in (arguments for arguments, _ in made if isinstance(arguments[0], Tensor)):
        assert denoiser.multiply_adds(
            state.repeat(5, *(1,) * (state.dim() - 1))
        ) == 5 * denoiser.multiply_adds(state)


def test_multiply_adds_of_other_calls() -> None:
    """Features, last positions, caches, dense states, vectors, no time, relations and caps, the Llama shape."""
    plain = network(replace(LOOPED, attention_cap=20.0, soft_cap=5.0, carry="probabilities", loops=2))
    dense = torch.softmax(torch.randn(B, L, K), -1)
    for state in (TOKENS, dense):
        for keywords in (
            {},
            {"project": False},
            {"last_only": True},
            {"every_loop": True},
            {"self_condition": dense},
        ):
            wanted = plain.multiply_adds(state, **keywords)
            assert wanted == counted(plain, state, TIMES, **keywords) > 0
    described = network(replace(PLAIN, labels=(3, 0)))
    labels = torch.tensor([[1.0, 0.5]])
    assert described.multiply_adds(TOKENS[:1]) == counted(described, TOKENS[:1], TIMES[:1], labels=labels)
    timeless = Denoiser(K, L, PLAIN)
    assert timeless.multiply_adds(TOKENS[:1]) == counted(timeless, TOKENS[:1], None)
    board = Denoiser(4, 16, replace(PLAIN, relations="sudoku4"))
    cells = torch.zeros(1, 16, dtype=torch.long)
    assert board.multiply_adds(cells) == counted(board, cells, None)
    vectors = Denoiser(K, L, PLAIN, input="vectors", vector_size=5)
    assert vectors.multiply_adds(torch.zeros(1, L, 5)) == counted(vectors, torch.zeros(1, L, 5), None)
    causal = Denoiser(K, L, LOOPED, causal=True, adaln=False)
    cache = causal.new_cache(B)
    for part in (TOKENS[:, :3], TOKENS[:, 3:4]):
        expected = causal.multiply_adds(part, cache=cache, last_only=True)
        assert expected == counted(causal, part, None, cache=cache, last_only=True)
    llama = LlamaDenoiser(LlamaShape(K, 16, 32, 2, 4, 2, 4), L, bos=0)
    for state in (TOKENS, dense):
        assert llama.multiply_adds(state) == counted(llama, state, None)


def test_the_plan_of_a_run_counts_every_loop() -> None:
    """FLOP of training steps that `simplax doctor` reports: a call without gradients costs what it is counted with."""
    denoiser = Denoiser(K, L, LOOPED, time=LogLinear().sigma)
    weights, once = count_weights(denoiser, Optimizer()), Calls(0.0, 1.0)
    for loops in (1, 3):
        flop = flop_per_step(weights, once, replace(PLAIN, loops=loops), L, B)
        assert flop == 2 * denoiser.multiply_adds(TOKENS, loops=loops)
    between = flop_per_step(weights, once, replace(LOOPED, fewest_loops=1), L, B)
    assert between == 2 * denoiser.multiply_adds(TOKENS, loops=2)


def test_autoregressive_calls_read_only_what_is_new() -> None:
    from simplax.methods import AR

    method = AR()
    denoiser: Any = method.build(K, L, LOOPED)
    costs = [
        sample(
            denoiser, (B, L), sampler=method.sampler(cache=cache), process=method.process(denoiser), vocab_size=K,
            seeds=range(B),
        )
        for cache in (True, False)
    ]  # fmt: skip
    assert torch.equal(costs[0].tokens, costs[1].tokens)
    assert costs[0].block_passes == costs[1].block_passes == 6 * L
    assert costs[0].multiply_adds < 0.5 * costs[1].multiply_adds
