"""Sequences that do not change any more leave the batch: fewer calls, the same answers whoever else is in it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from simplax.samplers import Ancestral, Gibbs, MaskedAncestral, Psi, Simplax, sample
from simplax.samplers.kappa import Fixed
from simplax.samplers.stopping import Agreement, Settled
from simplax.schedules import LogLinear

K, LENGTH, STEPS = 5, 6, 12


class Deciding:
    """Predicts token (2 + number) for every sequence from a time on that depends on its first, given token."""

    vocab_size = K

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        self.sizes.append(len(z))
        decided = t < 0.2 + 0.2 * z[:, 0]
        wobble = torch.nn.functional.one_hot((t * 1000).long() % K, K)
        answer = torch.nn.functional.one_hot((z[:, 0] + 2) % K, K)
        chosen = torch.where(decided[:, None], answer, wobble)
        return 9.0 * chosen[:, None].expand(-1, z.shape[1], -1).double()


def draw(
    numbers: list[int], sampler: Any, seeds: list[int] | None = None, **options: Any
) -> tuple[Any, Deciding]:
    tokens = torch.tensor(numbers)[:, None].expand(-1, LENGTH)
    given = torch.zeros(len(numbers), LENGTH, dtype=torch.bool)
    given[:, 0] = True
    network = Deciding()
    result = sample(
        network,
        (len(numbers), LENGTH),
        sampler=sampler,
        schedule=LogLinear(),
        num_steps=STEPS,
        vocab_size=K,
        seeds=seeds or list(range(len(numbers))),
        tokens=tokens,
        given=given,
        **options,
    )
    return result, network


@pytest.mark.parametrize(
    "sampler",
    [Simplax(1.0), Simplax(0.5, "dense"), Psi(Fixed(0.0)), Ancestral()],
    ids=["simplax", "dense", "psi", "ancestral"],
)
def test_settled_sequences_leave_the_batch(sampler: Any) -> None:
    numbers = [0, 1, 2, 3, 2, 0]
    result, network = draw(numbers, sampler, stop=Settled(3), trajectory=True, score=True)
    # decided below t = .2 + .2 n: the first such call is number ceil(12 (.8 - .2 n)) + 1, and three of them must agree
    assert result.sample_calls.tolist() == [STEPS, 11, 8, 6, 8, STEPS]
    assert result.nfe == pytest.approx(sum(result.sample_calls.tolist()) / len(numbers))
    assert sum(network.sizes) == sum(result.sample_calls.tolist()) and network.sizes[-1] < len(numbers)
    answers = (torch.tensor(numbers) + 2) % K
    stopped = result.sample_calls < STEPS
    assert torch.equal(result.tokens[stopped, 1:], answers[stopped, None].expand(-1, LENGTH - 1))
    assert torch.equal(result.tokens[:, 0], torch.tensor(numbers))
    # who stopped stays as it was, and is scored by the call it stopped at
    assert result.trajectory.shape == (STEPS + 1, len(numbers), LENGTH)
    assert torch.equal(result.trajectory[6:, 3], result.tokens[3].expand(STEPS - 5, -1))
    assert torch.equal(result.decoded[-1][stopped], result.tokens[stopped])
    likeliest = torch.log_softmax(torch.tensor([9.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64), 0)[0]
    torch.testing.assert_close(
        result.log_prob[stopped].double(), likeliest.expand(int(stopped.sum())), atol=1e-5, rtol=0
    )
    # companions do not matter
    for row, number in enumerate(numbers):
        alone, _ = draw([number], sampler, [row], stop=Settled(3))
        assert torch.equal(alone.tokens[0], result.tokens[row]) and alone.nfe == result.sample_calls[row]


@pytest.mark.parametrize("numbers", [[1, 0, 0, 1, 0], [1, 1, 0]], ids=["several stay", "one stays"])
def test_scores_belong_to_their_sequences_when_some_leave_at_the_last_step(numbers: list[int]) -> None:
    # number 1 is decided for exactly its last four calls, number 0 for two: the former leave where the latter end
    result, _ = draw(numbers, Psi(Fixed(0.0)), stop=Settled(4), score=True)
    assert result.sample_calls.tolist() == [STEPS] * len(numbers)
    for row, number in enumerate(numbers):
        alone, _ = draw([number], Psi(Fixed(0.0)), [row], stop=Settled(4), score=True)
        assert torch.equal(alone.tokens[0], result.tokens[row])
        torch.testing.assert_close(alone.log_prob[0], result.log_prob[row])


def test_gibbs_sweeps_do_not_decide_what_a_step_decodes_to() -> None:
    result, network = draw([0], Psi(gibbs=Gibbs(sweeps=1, count=1)), trajectory=True)
    assert len(network.sizes) == 2 * STEPS - 1 and result.sample_calls.tolist() == [2 * STEPS - 1]
    for number, t in enumerate(result.times[:-3].float()):  # the sweep after it is made at the next time
        said = int(network(torch.zeros(1, LENGTH, dtype=torch.long), t.expand(1))[0, 0].argmax())
        assert result.decoded[number, 0, 1:].tolist() == [said] * (LENGTH - 1)


def test_without_a_stop_nothing_changes_and_everybody_stops_together() -> None:
    plain, network = draw([3, 3], Simplax(1.0))
    assert plain.sample_calls.tolist() == [STEPS, STEPS] and plain.nfe == STEPS
    both, network = draw([3, 3], Simplax(1.0), stop=Settled(3))
    assert both.nfe == 6 and len(network.sizes) == 6  # nobody is left: the loop ends
    never, _ = draw([3, 3], Simplax(1.0), stop=Settled(STEPS + 1))
    assert torch.equal(never.tokens, plain.tokens) and never.nfe == STEPS


def test_a_sequence_must_be_sure_of_its_answer() -> None:
    unsure, _ = draw([3], Simplax(1.0), stop=Settled(3, confidence=0.99999))
    assert unsure.nfe == STEPS
    sure, _ = draw([3], Simplax(1.0), stop=Settled(3, confidence=0.99))
    assert sure.nfe == 6


def test_agreement_counts_free_positions_only() -> None:
    free = torch.tensor([[True, False]])
    agreement = Agreement()
    for first, second in ((1, 0), (1, 1), (1, 2), (2, 2)):
        agreement = agreement.after(torch.tensor([[first, second]]), free)
    assert agreement.count is not None and agreement.count.tolist() == [1]
    assert agreement.after(torch.tensor([[2, 0]]), free).count.tolist() == [2]  # type: ignore[union-attr]


def test_impossible_stops_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 calls"):
        Settled(1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Settled(3, 2.0)
    with pytest.raises(ValueError, match="neither stop early"):
        sample(
            lambda z, t: torch.zeros(*z.shape, 3),
            (1, 2),
            sampler=MaskedAncestral(),
            schedule=LogLinear(),
            num_steps=2,
            vocab_size=3,
            stop=Settled(),
        )
