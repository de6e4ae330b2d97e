"""What training would cost: counted weights, FLOP against torch's counter, bytes against what is really allocated."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from simplax import recipes
from simplax.cli import main
from simplax.methods import METHODS, Simplax
from simplax.nn import Architecture, attention
from simplax.nn.network import SMALLEST_VOCABULARY
from simplax.recipes.launch import build
from simplax.train import Optimizer, cost
from test_sudoku_eval_verbs import complaint

SHAPE = Architecture(width=48, depth=3, heads=4)


@pytest.mark.parametrize(
    "name", ["toy-udlm", "toy-langflow", "toy-flm", "sudoku4-simplax", "text-mini-candi"]
)
def test_weights_are_counted_as_they_are_built(name: str) -> None:
    config = recipes.smoke(recipes.get(name))
    task = config.task
    network = cost.weightless(config.method, task.vocab_size, task.length, config.architecture)
    counted = cost.count_weights(network, config.run.optimizer)
    built = build(config)
    assert counted.parameters == sum(p.numel() for p in built.parameters())
    blocks = sum(p.numel() for p in built.blocks.parameters())  # type: ignore[union-attr]
    assert counted.outside == counted.parameters - blocks
    assert counted.block * config.architecture.depth == blocks


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_bytes_of_the_optimizer_are_those_it_allocates(name: str) -> None:
    optimizer = Optimizer(name)  # type: ignore[arg-type]
    denoiser = METHODS["udlm"]().build(20, 8, SHAPE)
    optimizers = optimizer.build(denoiser)
    for parameter in denoiser.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizers.step(1, 10)
    held = [v for state in optimizers.state_dict().values() for v in state.values() if v.dim() > 0]
    weights = cost.count_weights(denoiser, optimizer)
    bytes_held = cost.memory(weights, 0.0, 0, 1).optimizer
    assert bytes_held == sum(v.numel() * v.element_size() for v in held)


@pytest.mark.parametrize("name", ["udlm", "ar", "duo", "candi", "sflm"])
def test_flop_follow_torchs_counter(name: str) -> None:
    method, length, sequences = METHODS[name](), 32, 16
    denoiser = method.build(40, length, SHAPE).train()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        cost._loss(method, denoiser, length, 40, sequences).backward()  # type: ignore[no-untyped-call]
    weights = cost.count_weights(denoiser, Optimizer())
    calls = cost.count_calls(method, SHAPE, length)
    assert calls == cost.Calls(1.0, 0.0)
    formula = cost.flop_per_step(weights, calls, SHAPE, length, sequences)
    assert formula == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_flop_of_a_step_by_hand() -> None:
    weights = cost.Weights(1000, 100, 300, token=10, sample=3, moments=2000, tables=0)
    shape = replace(SHAPE, depth=2, width=8, heads=2)
    once = 5 * 7 * (2 * 10 + 4 * 2 * 7 * 8) + 5 * 2 * 3
    assert cost.flop_per_step(weights, cost.Calls(1, 0), shape, 7, 5) == 3 * once
    assert cost.flop_per_step(weights, cost.Calls(1, 0.5), shape, 7, 5) == 3.5 * once
    again = replace(shape, checkpointing=True)
    assert cost.flop_per_step(weights, cost.Calls(1, 0), again, 7, 5) == 4 * once
    assert cost.days(1e15, 86_400, 8, 250.0, 0.5) == pytest.approx(1.0)


def test_calls_along_a_chain_and_first_calls_are_counted() -> None:
    carry = replace(SHAPE, carry="hidden")
    assert cost.count_calls(Simplax(rollout=4), carry, 8) == cost.Calls(4.0, 0.0)
    # loops are inside a call, and counted with the weights that they apply again
    looped = replace(carry, loops=3, loop_loss=True, fewest_loops=2)
    assert cost.count_calls(Simplax(rollout=4), looped, 8) == cost.Calls(4.0, 0.0)
    first = cost.count_calls(Simplax(), carry, 8)
    assert first.differentiated == 1.0 and 0.7 < first.forward_only <= 1.0


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", ["simplax", "ar"])
def test_activations_extrapolate_exactly(name: str, dtype: torch.dtype | None) -> None:
    method, shape = METHODS[name](), replace(SHAPE, dropout=0.1)
    estimate = cost.activations(method, 40, 16, shape, dtype)
    units = shape.width // cost._small_width(shape)
    assert estimate == pytest.approx(cost._saved(method, 16, shape, shape.depth, units, 40, dtype), rel=0.02)
    assert cost.activations(method, 40, 16, replace(shape, checkpointing=True), dtype) < 0.7 * estimate


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", ["simplax", "ar"])
def test_attention_keeps_no_scores_in_any_number_format(name: str, dtype: torch.dtype | None) -> None:
    """As on a GPU, whatever is faster on a CPU: twice the length keeps twice the bytes, not four times."""
    short, long = (cost._saved(METHODS[name](), length, SHAPE, 2, 3, 40, dtype) for length in (128, 256))
    assert long == pytest.approx(2 * short, rel=0.01)
    assert not attention._Forms.of_gpus


def test_logits_are_kept_only_without_the_fused_loss() -> None:
    method, length, smallest = METHODS["udlm"](), 16, SMALLEST_VOCABULARY
    fused = cost.activations(method, smallest, length, SHAPE, None)
    whole = cost.activations(method, smallest - 1, length, SHAPE, None)
    assert whole - fused > 4 * length * (smallest - 1)


def test_bytes_per_device_follow_the_definition() -> None:
    weights = cost.Weights(1000, 100, 300, token=400, sample=50, moments=2000, tables=16)
    whole = cost.memory(weights, 7.0, 11, 3, half=True)
    assert vars(whole) == {
        "weights": 4016, "copies": 900, "gradients": 4000, "optimizer": 8000, "average": 4000, "gathered": 0,
        "activations": 21, "logits": 132,
    }  # fmt: skip
    split = cost.memory(weights, 7.0, 11, 3, shards=8)
    assert (split.weights, split.gradients, split.optimizer) == (516, 500, 1000)
    assert split.gathered == 4 * (700 + 2 * 100 + 700)
    assert split.total == sum(vars(split).values())


def test_a_recipe_is_costed_by_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "text-mini-udlm", "--devices", "1", "8", "--run.batch_size", "128", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens_per_step"] == 128 * 128
    assert found["flop"] == found["flop_per_step"] * found["steps"]
    one, eight = found["devices"]
    assert one["days"] == pytest.approx(found["flop"] / (312e12 * 0.4) / 86_400)
    assert eight["days"] == pytest.approx(one["days"] / 8)
    assert eight["fsdp"]["bytes"]["optimizer"] == pytest.approx(one["ddp"]["bytes"]["optimizer"] / 8)
    assert one["ddp"]["accumulate_to_fit"] == 1
    assert main(["doctor", "text-mini-udlm", "--device-memory", "0.5", "--devices", "1"]) == 0
    assert "accumulate to fit" in capsys.readouterr().out
    assert "did you mean toy-udlm?" in complaint(capsys, "doctor", "toy-udl")
    assert "name the recipe" in complaint(capsys, "doctor", "--run.steps", "3")
    assert "--utilisation in (0, 1]" in complaint(capsys, "doctor", "toy-udlm", "--utilisation", "2")


PAGE = (Path(__file__).parents[1] / "docs" / "costs.md").read_text()
TABLE = {row[0]: row[1:] for row in re.findall("^" + r"\| `?([^|]*?)`? " * 10 + r"\|$", PAGE, re.M)}


def printed(name: str) -> tuple[str, ...]:
    """The row of a recipe in docs/costs.md, from the code."""
    config = recipes.get(name)
    task, run = config.task, config.run
    found = cost.training_cost(config.method, task.vocab_size, task.length, config.architecture, run)
    return (
        f"{found.weights.parameters / 1e6:.1f} M",
        f"{found.calls.differentiated:g} + {found.calls.forward_only:.2g}",
        f"{found.flop_per_step:.3g}",
        f"{run.steps:,}",
        *(f"{cost.days(found.flop_per_step, run.steps, n, 312.0, 0.4):.3g}" for n in (1, 8, 64)),
        *(f"{found.on(8, sharded=sharded).total / 1e9:.0f}" for sharded in (False, True)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["owt-simplax", "owt-50k-w-input-self-conditioning"])
def test_costs_of_the_papers_runs_are_those_of_the_page(name: str) -> None:
    assert printed(name) == TABLE[name]


@pytest.mark.parametrize("name", [name for name in TABLE if name != "Recipe"])
def test_rows_of_the_page_follow_from_their_recipe(name: str) -> None:
    """Of all rows, what is quick to count."""
    config, row = recipes.get(name), TABLE[name]
    network = cost.weightless(config.method, config.task.vocab_size, config.task.length, config.architecture)
    parameters = cost.count_weights(network, config.run.optimizer).parameters
    assert row[0] == f"{parameters / 1e6:.1f} M" and row[3] == f"{config.run.steps:,}"
    for devices, days in zip((1, 8, 64), row[4:7]):
        assert float(days) == pytest.approx(
            cost.days(float(row[2]), config.run.steps, devices, 312.0, 0.4), rel=0.01
        )


def test_every_row_of_the_page_is_read() -> None:
    assert len(TABLE) == 1 + 12 == 1 + PAGE.count("| `owt-")
