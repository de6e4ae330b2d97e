"""What the sampling loop promises whatever the sampler: network calls, seeds, pinning, trajectories."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st
from torch import Tensor, nn

import simplax
from simplax.concentration import Vanishing
from simplax.processes.simplex import Atoms
from simplax.samplers import Ancestral, Simplax, nucleus, sample
from simplax.schedules import Linear, LogLinear
from simplax.times import Grid
from strategies import thorough

K, LENGTH = 60, 5
SAMPLERS = [
    Ancestral(),
    Simplax(0.01),
    Simplax(1.0),
    Simplax(1.0, "atoms"),
    Simplax(1.0, "dense"),
    Simplax(Vanishing(5.0, until=0.5), "dense"),
]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)


def denoiser(z: Tensor, t: Tensor) -> Tensor:
    """Deterministic, elementwise and different for every (position, category, token, time)."""
    v = torch.arange(K)
    return 2 * torch.sin(
        z[..., None] * 0.7 + z.roll(1, -1)[..., None] * 1.3 + v * v * 0.11 + 3 * t[:, None, None]
    )


def run(sampler: Any, batch: int = 6, network: Any = denoiser, **options: Any) -> simplax.samplers.Samples:
    settings = {"schedule": LogLinear(), "num_steps": 4, "vocab_size": K, "seeds": range(batch)} | options
    return sample(network, (batch, LENGTH), sampler=sampler, **settings)


@every_sampler
@thorough
@drawn(num_steps=st.integers(1, 9), schedule=st.sampled_from([LogLinear(), Linear()]))
def test_one_network_call_per_step(sampler: Any, num_steps: int, schedule: Any) -> None:
    times: list[float] = []

    def counted(z: Tensor, t: Tensor) -> Tensor:
        assert t.shape == (2,) and t.dtype == torch.float32
        times.append(t[0].item())
        return denoiser(z, t)

    samples = run(sampler, 2, counted, num_steps=num_steps, schedule=schedule)
    assert samples.nfe == num_steps == len(times)
    expected = torch.arange(num_steps, 0, -1) / num_steps
    torch.testing.assert_close(torch.tensor(times), expected)
    assert ((samples.tokens >= 0) & (samples.tokens < K)).all()


@every_sampler
def test_a_samples_tokens_depend_on_its_seed_alone(sampler: Any) -> None:
    whole = run(sampler, 7).tokens
    order = [4, 0, 6]
    assert torch.equal(run(sampler, 3, seeds=order).tokens, whole[order])
    assert torch.equal(run(sampler, 1, seeds=[5]).tokens, whole[5:6])
    assert len({tuple(row) for row in whole.tolist()}) > 1


def test_seeds_come_from_a_generator_and_come_back() -> None:
    first = run(Simplax(1.0), seeds=torch.Generator().manual_seed(3))
    again = run(Simplax(1.0), seeds=torch.Generator().manual_seed(3))
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.seeds, again.seeds)
    assert torch.equal(run(Simplax(1.0), seeds=first.seeds).tokens, first.tokens)
    assert not torch.equal(run(Simplax(1.0), seeds=None).seeds, run(Simplax(1.0), seeds=None).seeds)


@every_sampler
def test_given_positions_never_move(sampler: Any) -> None:
    tokens = torch.arange(30).reshape(6, 5)
    given = torch.tensor([True, False, False, True, False]).expand(6, 5)

    def watched(z: Tensor, t: Tensor) -> Tensor:
        assert torch.equal(z[given], tokens[given])
        return denoiser(z, t)

    samples = run(sampler, 6, watched, tokens=tokens, given=given, trajectory=True)
    assert samples.trajectory is not None
    assert (samples.trajectory[:, given] == tokens[given]).all()
    assert not torch.equal(samples.tokens, tokens)


@every_sampler
def test_trajectory_starts_in_noise_and_ends_at_the_tokens(sampler: Any) -> None:
    samples = run(sampler, trajectory=True)
    assert samples.trajectory is not None and samples.trajectory.shape == (5, 6, LENGTH)
    assert torch.equal(samples.trajectory[-1], samples.tokens)
    assert torch.equal(run(sampler).tokens, samples.tokens)
    assert run(sampler).trajectory is None
    torch.testing.assert_close(samples.times, torch.tensor([1, 0.75, 0.5, 0.25, 0]).double())


def test_progress_is_reported_step_by_step() -> None:
    seen: list[tuple[int, int]] = []
    run(Ancestral(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_ends_of_the_chain() -> None:
    stopped = run(Simplax(1.0, times=Grid(end=1e-5)))
    assert stopped.nfe == 4 and stopped.times[-1].item() == 1e-5
    greedy = run(Simplax(1.0, times=Grid(end=1e-5), last="greedy"))
    assert greedy.nfe == 5
    expected = denoiser(stopped.tokens, torch.full((6,), 1e-5)).argmax(-1)
    assert torch.equal(greedy.tokens, expected)
    tokens, given = torch.zeros(6, 5, dtype=torch.long), torch.tensor([True] + [False] * 4).expand(6, 5)
    held = run(Ancestral(last="greedy"), tokens=tokens, given=given)
    assert (held.tokens[:, 0] == 0).all()


def test_top_p_and_low_temperature_leave_the_likeliest() -> None:
    """At s = 0 a token is the anchor or a draw from x_hat, so one category is left of each prediction."""

    def constant(z: Tensor, t: Tensor) -> Tensor:
        return torch.arange(K).flip(0).expand(*z.shape, K) * 0.1

    assert run(Ancestral(), network=constant, top_p=1e-3).tokens.unique().tolist() == [0]
    assert run(Ancestral(), network=constant, temperature=1e-3).tokens.unique().tolist() == [0]
    assert len(run(Ancestral(), network=constant).tokens.unique()) > 5


@pytest.mark.parametrize(
    ("top_p", "expected"), [(0.8, [10 / 17, 4 / 17, 3 / 17, 0, 0]), (0.45, [1, 0, 0, 0, 0]), (1, None)]
)
def test_nucleus_keeps_the_category_that_crosses(top_p: float, expected: list[float] | None) -> None:
    probs = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05], dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    kept = torch.softmax(nucleus(top_p)(probs[order].log()), -1)
    torch.testing.assert_close(kept, (probs if expected is None else torch.tensor(expected).double())[order])


class Foreign(nn.Module):
    """A network that knows nothing of simplax."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(K, 8)
        self.out = nn.Linear(8, K)

    def forward(self, ids: Tensor, time: Tensor) -> Tensor:
        return self.out(self.embedding(ids) + time[:, None, None])


def test_a_foreign_module_is_a_denoiser() -> None:
    samples = run(Simplax(0.1), network=Foreign())
    assert samples.tokens.shape == (6, LENGTH) and not samples.tokens.requires_grad


def test_context_goes_to_networks_that_ask_for_it() -> None:
    given = torch.zeros(6, 5, dtype=torch.bool)
    seen = []

    def curious(z: Tensor, t: Tensor, given: Tensor | None = None) -> Tensor:
        seen.append(given)
        return denoiser(z, t)

    run(Ancestral(), network=curious, tokens=torch.zeros(6, 5, dtype=torch.long), given=given)
    assert len(seen) == 4 and all(each is given for each in seen)


@pytest.mark.parametrize(("form", "kind"), [("atoms", Atoms), ("dense", Tensor)], ids=["atoms", "dense"])
def test_a_network_may_read_the_simplex_state(form: str, kind: type) -> None:
    tokens, given = torch.full((6, 5), 7), torch.tensor([True] + [False] * 4).expand(6, 5)
    for eta in (1.0, Vanishing(1.0, until=0.5)):

        def reads(state: Atoms | Tensor, t: Tensor) -> Tensor:
            assert isinstance(state, kind)
            w = state if isinstance(state, Tensor) else state.dense(K).w
            assert w.dtype == torch.float32 and w.shape == (6, LENGTH, K)
            torch.testing.assert_close(w.sum(-1), torch.ones(6, LENGTH))
            assert (w[:, 0, 7] == 1).all()
            return w.log().clamp(min=-5)

        samples = run(Simplax(eta, form, reads_w=True), network=reads, tokens=tokens, given=given)
        assert samples.nfe == 4


def test_half_precision_logits_are_taken_as_the_numbers_they_are() -> None:
    half = run(Simplax(1.0), network=lambda z, t: denoiser(z, t).bfloat16())
    whole = run(Simplax(1.0), network=lambda z, t: denoiser(z, t).bfloat16().float())
    assert torch.equal(half.tokens, whole.tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": [1, 2]}, "seeds must be one integer per sample"),
        ({"tokens": torch.zeros(6, 5)}, "tokens and given go together"),
        (
            {"tokens": torch.zeros(6, 5).long(), "given": torch.ones(6, 5)},
            "given must be a boolean tensor",
        ),
        (
            {"tokens": torch.full((6, 5), 60), "given": torch.ones(6, 5).bool()},
            r"ids in \[0, 59\] where given",
        ),
        ({"vocab_size": 61}, "gives 60 logits per position: vocab_size must be that, not 61"),
        ({"num_steps": 0}, "num_steps must be at least 1, got 0"),
        ({"temperature": 0.0}, r"temperature must be positive .* got 0\.0"),
        ({"top_p": 0.0}, "top_p must lie in"),
        ({"top_p": 1.5}, "top_p must lie in"),
        ({"pi": torch.ones(3) / 3}, "one positive probability for each of 60 categories"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(Ancestral(), **options)


def test_samplers_refuse_what_they_cannot_do() -> None:
    with pytest.raises(ValueError, match="unknown form of the simplex state 'sparse'"):
        Simplax(form="sparse")
    with pytest.raises(ValueError, match="the marginal form draws no w"):
        Simplax(reads_w=True)
    with pytest.raises(ValueError, match="eta must not be negative, got -1"):
        Simplax(-1)
    for sampler in (Ancestral, Simplax):
        with pytest.raises(
            ValueError, match="unknown end of the chain 'best': choose one of greedy, posterior"
        ):
            sampler(last="best")
