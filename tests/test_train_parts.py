"""The trainer's parts by themselves: average, schedule, clipping, data order, precision."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from simplax.errors import UserError
from simplax.nn import PRESETS, Denoiser
from simplax.train import Optimizer
from simplax.train import precision as precisions
from simplax.train.distributed import World
from simplax.train.ema import EMA
from simplax.train.identity import difference
from simplax.train.optimizer import Branch, is_block_matrix, normalise_and_clip
from simplax.train.step import dropout_seed, micro_batches
from test_train_toy import SHORT, ToySource, toy

CPU = torch.device("cpu")


class Scalar(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))


def test_ema_follows_the_published_sequence() -> None:
    module = Scalar()
    ema = EMA(module, 0.9999)
    seen = []
    for number in range(1, 6):
        module.value.data.fill_(number)
        ema.update()
        seen.append(ema.state_dict()["value"].item())
    assert seen == pytest.approx([0.81818181, 1.7045455, 2.60139871, 3.50049949, 4.40019989], rel=1e-7)


def test_ema_is_capped_by_its_decay_and_keeps_float32() -> None:
    module = nn.Linear(2, 2, bias=False).bfloat16()
    ema = EMA(module, 0.5)
    before = ema.state_dict()["weight"].clone()
    ema.count = 10_000
    module.weight.data.fill_(1.0)
    ema.update()
    assert ema.state_dict()["weight"].dtype == torch.float32
    torch.testing.assert_close(ema.state_dict()["weight"], 0.5 * before + 0.5)


def test_ema_is_swapped_in_and_out_without_a_trace() -> None:
    module = toy()
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    ema = EMA(module, 0.9)
    for p in module.parameters():
        p.data.add_(1.0)
    with pytest.raises(RuntimeError), ema.swapped_in():
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
        raise RuntimeError
    assert all(torch.equal(p, weights[name] + 1.0) for name, p in module.named_parameters())


def test_warm_up_starts_at_zero_and_the_rate_is_constant_after_it() -> None:
    optimizer = Optimizer(warmup=4)
    assert [optimizer.factor(step, 100) for step in range(6)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert Optimizer(warmup=0).factor(0, 100) == 1.0
    assert Optimizer().factor(1_000_000, 1_000_001) == 1.0


def test_decays_end_where_they_say() -> None:
    cosine, linear = Optimizer(warmup=10, decay="cosine"), Optimizer(warmup=10, decay="linear")
    wsd = Optimizer(warmup=10, decay="wsd", decay_share=0.2)
    assert [wsd.factor(step, 110) for step in (5, 10, 50, 90, 100, 110)] == pytest.approx(
        [0.5, 1, 1, 1, 0.5, 0], abs=1e-12
    )
    assert wsd.factor(90, 1_000_000) == 1.0  # until its decay it does not know its length
    branch = Branch(40, 0.5)
    assert [linear.factor(step, 80, branch) for step in (40, 60, 80)] == [0.5, 0.25, 0.0]
    assert cosine.factor(10, 110) == pytest.approx(1.0) and cosine.factor(110, 110) == pytest.approx(0.1)
    assert cosine.factor(60, 110) == pytest.approx(0.55)
    assert linear.factor(60, 110) == pytest.approx(0.5) and linear.factor(110, 110) == 0.0


def test_rates_reach_both_optimizers() -> None:
    module = toy()
    optimizers = Optimizer(name="muon", warmup=2, learning_rate=0.1, matrix_learning_rate=0.5).build(module)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    assert optimizers.step(1, 10) == pytest.approx(0.05)
    assert [part.param_groups[0]["lr"] for part in optimizers.parts] == [0.25, 0.05]


def test_the_first_step_does_not_move_the_weights() -> None:
    module = toy()
    before = [p.clone() for p in module.parameters()]
    optimizers = Optimizer().build(module)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    optimizers.step(0, 10)
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before))


def test_muon_takes_the_matrices_of_the_blocks_and_adamw_the_rest() -> None:
    denoiser = Denoiser(vocab_size=7, length=4, architecture=PRESETS["cpu-nano"], time=lambda t: t)
    chosen = {name for name, p in denoiser.named_parameters() if is_block_matrix(name, p)}
    kinds = {"attn_qkv.weight", "attn_out.weight", "mlp.0.weight", "mlp.2.weight"}
    assert chosen == {f"blocks.{layer}.{kind}" for layer in range(2) for kind in kinds}
    optimizers = Optimizer(name="muon").build(denoiser)
    sizes = [sum(p.numel() for p in part.param_groups[0]["params"]) for part in optimizers.parts]
    assert sum(sizes) == sum(p.numel() for p in denoiser.parameters())
    assert sizes[0] == sum(p.numel() for name, p in denoiser.named_parameters() if name in chosen)


def test_muon_without_blocks_is_refused() -> None:
    with pytest.raises(UserError, match="Muon"):
        Optimizer(name="muon").build(nn.Linear(2, 2))


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_clipping_matches_torch_after_scaling(scale: float, clip: float) -> None:
    ours, theirs = toy(), toy()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        p.grad = torch.randn_like(p)
        q.grad = p.grad * scale
    norm = normalise_and_clip(ours.parameters(), scale, clip)
    expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
    assert norm == pytest.approx(expected.item(), rel=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 1), (1, 4), (2, 2), (4, 3)])
def test_times_tile_the_unit_interval_over_ranks_and_accumulation(processes: int, accumulate: int) -> None:
    run = replace(SHORT, batch_size=24, accumulate=accumulate)
    parts = [
        part
        for rank in range(processes)
        for part in micro_batches(ToySource(), run, World(rank, processes, CPU), step=3)
    ]
    u = torch.cat([context.u for _, context, _ in parts])
    assert (u * 24).floor().long().sort().values.tolist() == list(range(24))
    counters = torch.cat([counters for _, _, counters in parts])
    assert counters.tolist() == list(range(72, 96))


def test_a_sample_does_not_depend_on_the_split() -> None:
    run = replace(SHORT, batch_size=8)
    ((whole, context, _),) = micro_batches(ToySource(), run, World(0, 1, CPU), 5)
    last = list(micro_batches(ToySource(), replace(run, accumulate=2), World(1, 2, CPU), 5))[-1]
    assert torch.equal(last[0].tokens, whole.tokens[6:])
    assert torch.equal(last[1].u, context.u[6:])
    assert torch.equal(last[1].keys.state, context.keys.state[6:])


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(UserError, match="multiple of processes x accumulate"):
        replace(SHORT, batch_size=6, accumulate=2).micro_batch(2)


def test_dropout_seeds_do_not_repeat() -> None:
    seeds = [dropout_seed(1, *place) for place in torch.cartesian_prod(*[torch.arange(8)] * 3).tolist()]
    assert len(set(seeds)) == 8**3


def test_auto_precision_is_a_rule_and_not_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    denoiser = Denoiser(vocab_size=7, length=4, architecture=PRESETS["cpu-nano"], time=lambda t: t)
    monkeypatch.setattr(precisions, "matmul_rate", lambda *_: pytest.fail("nothing is measured"))
    for device, has, expected in (
        (CPU, True, "float32"),
        (torch.device("cuda"), True, "bfloat16"),
        (torch.device("cuda"), False, "float32"),
    ):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)  # noqa: B023
        assert precisions.choose("auto", denoiser, device) == expected
        precisions.apply(expected, denoiser)
        assert denoiser.autocast == (torch.bfloat16 if expected == "bfloat16" else None)


def test_a_foreign_network_stays_float32() -> None:
    assert precisions.choose("auto", toy(), CPU) == "float32"
    with pytest.raises(UserError, match="autocast"):
        precisions.choose("bfloat16", toy(), CPU)


def test_matmul_rate_is_a_rate() -> None:
    rate = precisions.matmul_rate(torch.float32, CPU, size=64, seconds=0.01)
    assert rate > 0 and math.isfinite(rate)


def test_difference_names_every_change() -> None:
    old = {"run": {"steps": 5, "seed": 1}, "method": {"kind": "udlm"}, "gone": 1}
    new = {"run": {"steps": 6, "seed": 1}, "method": {"kind": "udlm"}, "added": [1, 2]}
    assert [str(change) for change in difference(old, new)] == [
        "added: absent -> [1, 2]",
        "gone: 1 -> absent",
        "run.steps: 5 -> 6",
    ]
    assert difference(old, old) == []
