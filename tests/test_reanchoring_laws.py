"""The re-anchoring family: what each option does to the law, exactly, and that the sampler draws from it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import failure_budget
import reanchoring_laws as laws
from reanchoring_laws import LAW_A, LAW_B, STATES, K
from simplax.concentration import PerToken
from simplax.samplers import Psi, Simplax, sample
from simplax.samplers.gibbs import Gibbs
from simplax.samplers.kappa import Fixed, FromEta
from simplax.samplers.positions import Classes, Every, SudokuColours
from simplax.schedules import Linear

# distance of z_0 from law A by number of steps: ancestral, then (x_hat of the call before, x_hat, posterior) for each
# of eta .01, 1 and 100
DISTANCES = {
    4: (0.1477, (0.1506, 0.1490, 0.1479), (0.2894, 0.2428, 0.1589), (0.4045, 0.4086, 0.1727)),
    16: (0.0358, (0.0400, 0.0370, 0.0362), (0.2451, 0.1403, 0.0546), (0.4041, 0.4037, 0.0725)),
    64: (0.0087, (0.0130, 0.0098, 0.0091), (0.2280, 0.1064, 0.0228), (0.4101, 0.4008, 0.0324)),
    1024: (0.0005, (0.0044, 0.0018, 0.0009), (0.2178, 0.0946, 0.0051), (0.4126, 0.3993, 0.0074)),
}


@pytest.mark.parametrize("num_steps", DISTANCES)
def test_distances_of_whole_chains(num_steps: int) -> None:
    """The leave-one-out redraw has a floor; the posterior's falls; at eta 100 Simplax forgets all dependence."""
    ancestral, *rows = DISTANCES[num_steps]
    found = laws.distance(laws.chain(LAW_A, "posterior", num_steps, 0.0), LAW_A)
    assert found == pytest.approx(ancestral, abs=6e-5)
    for eta, expected in zip((0.01, 1.0, 100.0), rows):
        share = eta / (1 + eta)
        found_row = (
            laws.previous_chain(LAW_A, "prediction", num_steps, share),
            laws.chain(LAW_A, "prediction", num_steps, share),
            laws.chain(LAW_A, "posterior", num_steps, share),
        )
        assert [laws.distance(law, LAW_A) for law in found_row] == pytest.approx(list(expected), abs=6e-5)
    product = torch.outer(LAW_A.sum(1), LAW_A.sum(0))
    assert laws.distance(product, LAW_A) == pytest.approx(0.413, abs=5e-4)


def test_tokens_that_must_differ() -> None:
    """Law B, uniform over unequal pairs: the share of valid pairs after 64 steps."""

    def valid(law: Tensor) -> float:
        return 1 - float(law.diagonal().sum())

    assert valid(laws.chain(LAW_B, "posterior", 64, 0.0)) == pytest.approx(0.994, abs=5e-4)
    for eta, simplax, posterior in ((1.0, 0.859, 0.992), (100.0, 0.686, 0.990)):
        share = eta / (1 + eta)
        assert valid(laws.previous_chain(LAW_B, "prediction", 64, share)) == pytest.approx(simplax, abs=5e-4)
        assert valid(laws.chain(LAW_B, "posterior", 64, share)) == pytest.approx(posterior, abs=5e-4)


def test_a_fixed_number_of_redraws_is_consistent() -> None:
    expected = {16: (0.0653, 0.0429, 0.1151), 64: (0.0148, 0.0105, 0.0285), 256: (0.0036, 0.0026, 0.0070)}
    for num_steps, row in expected.items():
        share = 3 / num_steps
        found = (
            laws.chain(LAW_A, "prediction", num_steps, share),
            laws.chain(LAW_A, "posterior", num_steps, share),
            laws.previous_chain(LAW_A, "prediction", num_steps, share),
        )
        assert [laws.distance(law, LAW_A) for law in found] == pytest.approx(list(row), abs=6e-5)


def test_positions_in_turn_are_consistent_at_full_strength() -> None:
    """Every token of one position is redrawn from the leave-one-out prediction, then of the other: no floor."""

    def turn(n: int) -> tuple[float, float]:
        return (0.0, 1.0) if n % 2 == 0 else (1.0, 0.0)

    for num_steps, expected in ((16, 0.0538), (64, 0.0131), (256, 0.0033)):
        law = laws.chain(LAW_A, "prediction", num_steps, turn)
        assert laws.distance(law, LAW_A) == pytest.approx(expected, abs=6e-5)


def test_one_step_keeps_every_marginal_and_not_the_joint() -> None:
    exact, target = laws.at_time(LAW_A, 0.4), laws.at_time(LAW_A, 0.6)
    joint = {("prediction", 0.0): 0.0459, ("prediction", 0.5): 0.0896, ("prediction", 1.0): 0.1471}
    joint |= {("posterior", 0.5): 0.0728, ("posterior", 1.0): 0.1057}
    for (redraw, share), expected in joint.items():
        after = (exact.flatten() @ laws.table(LAW_A, redraw, (share, share), 0.6, 0.4)).reshape(K, K)
        assert laws.distance(after, target) == pytest.approx(expected, abs=6e-5)
        for axis in (0, 1):
            torch.testing.assert_close(after.sum(axis), target.sum(axis), rtol=0, atol=1e-15)


def largest_shift(law: Tensor, target: Tensor) -> float:
    return max(laws.distance(law.sum(axis), target.sum(axis)) for axis in (0, 1))


def test_the_previous_prediction_shifts_single_tokens_a_little() -> None:
    """Anchor and bridge then come from different predictions; chains of any kind drift, for their errors feed back."""
    for times, shift in (((0.8, 0.6, 0.4), 5e-4), ((0.52, 0.50, 0.48), 1.5e-5)):
        alphas = [1 - t for t in times]
        after = laws.previous_path(LAW_A, "prediction", alphas, 1.0, laws.at_time(LAW_A, alphas[0]))
        assert largest_shift(after, laws.at_time(LAW_A, alphas[-1])) == pytest.approx(shift, rel=0.05)
    for num_steps, drift in ((4, 0.005), (64, 0.0007)):
        assert largest_shift(laws.chain(LAW_A, "posterior", num_steps, 0.0), LAW_A) == pytest.approx(
            drift, rel=0.05
        )


def test_a_posterior_taken_for_a_leave_one_out_prediction_counts_the_token_twice() -> None:
    for num_steps in (16, 64):
        law = torch.full((K**2,), 1 / K**2, dtype=torch.float64)
        for n in range(num_steps):
            alpha_t, alpha_s = n / num_steps, (n + 1) / num_steps
            twice = laws.posterior(laws.leave_one_out(LAW_A, alpha_t), STATES, alpha_t)
            step = laws.bridge(twice, STATES, alpha_s, alpha_t)
            law = law @ (step[:, 0, :, None] * step[:, 1, None, :]).flatten(1)
        assert laws.distance(law, LAW_A) == pytest.approx(0.28, abs=0.006)


@pytest.mark.parametrize("redraw", ["prediction", "posterior"])
def test_one_position_at_a_time_keeps_the_law(redraw: str) -> None:
    """Given the others, both redraws at one time leave p_t as it is; the leave-one-out one forgets the token."""
    exact = laws.at_time(LAW_A, 0.4)
    fresh = laws.redrawn(LAW_A, redraw, 0.4, 0.4)
    table = (fresh[:, 0, :, None] * laws.EYE[STATES[:, 1]][:, None, :]).flatten(1)
    torch.testing.assert_close((exact.flatten() @ table).reshape(K, K), exact, rtol=0, atol=1e-15)


def test_one_step_of_one_token() -> None:
    x_hat = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    z = torch.tensor(2)
    expected = {
        "bridge": (laws.bridge(x_hat, z, 0.6, 0.3), [0.24621212, 0.17803030, 0.57575758]),
        "prediction": (laws.noised(x_hat, 0.6), [0.43333333, 0.31333333, 0.25333333]),
        "posterior": (laws.posterior(x_hat, z, 0.3), [0.39772727, 0.23863636, 0.36363636]),
        "redraw": (laws.noised(laws.posterior(x_hat, z, 0.3), 0.6), [0.37196970, 0.27651515, 0.35151515]),
    }
    for found, numbers in expected.values():
        assert found.tolist() == pytest.approx(numbers, abs=6e-9)
    # with one prediction, anchors redrawn from it lead where a fresh token of the new time comes from
    anchors = torch.einsum("a,ab->b", laws.noised(x_hat, 0.3), laws.bridge(x_hat, torch.arange(3), 0.6, 0.3))
    torch.testing.assert_close(anchors, laws.noised(x_hat, 0.6))


class Exact:
    vocab_size = K

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        return laws.leave_one_out(LAW_A, 1 - float(t[0])).log()[z[:, 0] * K + z[:, 1]]


def counts(sampler: Any, num_steps: int, number: int = 60_000) -> tuple[Tensor, Any]:
    options = {"schedule": Linear(), "num_steps": num_steps, "vocab_size": K, "seeds": range(number)}
    result = sample(Exact(), (number, 2), sampler=sampler, **options)  # type: ignore[arg-type]
    return torch.bincount(result.tokens[:, 0] * K + result.tokens[:, 1], minlength=K**2).double(), result


def test_samples_have_these_laws() -> None:
    share, turns = 0.5, ((1.0, 0.0), (0.0, 1.0))
    cases = {
        "current": (Psi(Fixed(0.5), redraw="prediction"), laws.chain(LAW_A, "prediction", 5, share)),
        "posterior": (Psi(FromEta(1.0)), laws.chain(LAW_A, "posterior", 5, share)),
        "previous": (
            Psi(Fixed(0.5), redraw="prediction", prediction="previous"),
            laws.previous_chain(LAW_A, "prediction", 5, share),
        ),
        "simplax": (Simplax(1.0), laws.previous_chain(LAW_A, "prediction", 5, share)),
        "previous posterior": (
            Psi(Fixed(0.5), prediction="previous"),
            laws.previous_chain(LAW_A, "posterior", 5, share),
        ),
        "per token": (
            Psi(FromEta(PerToken(3.0)), redraw="prediction"),
            laws.chain(LAW_A, "prediction", 5, 3 / 5),
        ),
        "in turn": (
            Psi(Fixed(0.0), redraw="prediction", positions=Every(2)),
            laws.chain(LAW_A, "prediction", 5, lambda n: turns[n % 2]),
        ),
        "classes": (
            Psi(Fixed(0.0), positions=Classes((1, 0))),
            laws.chain(LAW_A, "posterior", 5, lambda n: turns[(n + 1) % 2]),
        ),
    }
    found = {name: counts(sampler, 5)[0] for name, (sampler, _) in cases.items()}
    failure_budget.accept(
        {name: failure_budget.chi_square(found[name], cases[name][1].flatten()) for name in cases}
    )
    failure_budget.reject(failure_budget.chi_square(found["current"], cases["previous"][1].flatten()))


def gibbs_chain(num_steps: int, sweeps: int) -> Tensor:
    """Ancestral steps, each but the last followed by sweeps of one random position at the time reached."""
    law = torch.full((K**2,), 1 / K**2, dtype=torch.float64)
    for n in range(num_steps):
        law = law @ laws.table(LAW_A, "prediction", (0.0, 0.0), (n + 1) / num_steps, n / num_steps)
        if n + 1 == num_steps:
            break
        alpha = (n + 1) / num_steps
        fresh, same = laws.redrawn(LAW_A, "prediction", alpha, alpha), laws.EYE[STATES]
        one = (fresh[:, 0, :, None] * same[:, 1, None, :]).flatten(1)
        two = (same[:, 0, :, None] * fresh[:, 1, None, :]).flatten(1)
        for _ in range(sweeps):
            law = law @ ((one + two) / 2)
    return law.reshape(K, K)


def test_gibbs_sweeps_correct_the_chain_and_count_their_calls() -> None:
    sampler = Psi(gibbs=Gibbs(sweeps=2, count=1, choice="random"))
    found, result = counts(sampler, 4)
    failure_budget.accept([failure_budget.chi_square(found, gibbs_chain(4, 2).flatten())])
    failure_budget.reject(failure_budget.chi_square(found, gibbs_chain(4, 0).flatten()))
    assert result.nfe == result.calls == 4 + 2 * 3
    # a step keeps every token's law, and a redraw given the other one restores the pair's: only the last step errs
    last = laws.at_time(LAW_A, 0.75).flatten() @ laws.table(LAW_A, "prediction", (0.0, 0.0), 1.0, 0.75)
    torch.testing.assert_close(gibbs_chain(4, 1), last.reshape(K, K))


def test_the_least_certain_positions_are_swept_and_given_ones_never() -> None:
    """One position is uncertain, the others are sure of their token: it is the one chosen."""
    logits = torch.full((4, 5), -30.0)
    logits[torch.arange(4), torch.arange(4)] = 30.0
    logits[1] = 0.0

    def network(z: Tensor, t: Tensor) -> Tensor:
        return logits.expand(len(z), 4, 5)

    tokens = torch.tensor([[4, 0, 0, 0]]).expand(500, 4)
    given = torch.tensor([[True, False, False, False]]).expand(500, 4)
    result = sample(
        network,
        (500, 4),
        sampler=Psi(gibbs=Gibbs(1, 1)),
        schedule=Linear(),
        num_steps=30,
        vocab_size=5,
        seeds=range(500),
        tokens=tokens,
        given=given,
        trajectory=True,
    )
    assert result.trajectory is not None and (result.trajectory[:, :, 0] == 4).all()
    changes = (result.trajectory[16:-1] != result.trajectory[15:-2]).double().mean((0, 1))
    assert changes[1] > 0.7 > 5 * changes[2:].max()


def test_sudoku_colours_hit_every_unit_once_and_all_sets_alike() -> None:
    from simplax.random import Keys

    chosen = SudokuColours().where(0, 81, Keys.from_seeds(range(2000))).reshape(-1, 3, 3, 3, 3)
    for axes in ((3, 4), (1, 2), (2, 4)):  # rows, columns, boxes
        assert (chosen.sum(axes) == 1).all()
    small = SudokuColours().where(0, 16, Keys.from_seeds(range(32_000))).long()
    kinds, numbers = torch.unique(small @ (2 ** torch.arange(16)), return_counts=True)
    assert len(kinds) == 16  # (2!)^4
    failure_budget.accept([failure_budget.chi_square(numbers.double(), torch.full((16,), 1 / 16))])
    assert not torch.equal(chosen[0], chosen[1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Psi(redraw="x"), "choose one of posterior, prediction"),
        (lambda: Psi(prediction="x"), "choose one of current, previous"),
        (lambda: Gibbs(choice="x"), "choose one of margin, random"),
        (lambda: Gibbs(count=0), "at least one position"),
        (lambda: Every(0), "at least 1"),
        (lambda: Classes(()), "numbers from 0"),
        (
            lambda: counts(Psi(Fixed(0.0), positions=Classes((0, 1, 2))), 2, 4),
            "2 positions and classes for 3",
        ),
        (lambda: counts(Psi(Fixed(0.0), positions=SudokuColours()), 2, 4), "81 or 16 cells"),
    ],
)
def test_impossible_options_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_masked_networks_have_seen_what_is_not_masked() -> None:
    from simplax.processes.masked import MaskedProcess

    for sampler in (Psi(redraw="prediction"), Psi(gibbs=Gibbs())):
        with pytest.raises(ValueError, match="from the posterior"):
            sample(
                lambda z, t: torch.zeros(*z.shape, 3),
                (1, 2),
                sampler=sampler,
                process=MaskedProcess,
                schedule=Linear(),
                num_steps=2,
                vocab_size=3,
            )
