"""Revision measured: on paths written by hand, and with exact predictors, whose numbers are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

import reanchoring_laws as laws
from reanchoring_laws import LAW_A, STATES, K
from simplax.evaluate.revision import expected_edits, kept_and_resampled, measure
from simplax.processes.prior import Prior
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.schedules import Linear


def test_measures_of_paths_written_by_hand() -> None:
    truth = np.array([[1, 2, 3], [1, 2, 3]])
    free = np.array([[True, True, False], [True, True, False]])
    states = np.array([[[1, 9, 3], [9, 8, 3]], [[1, 2, 3], [9, 7, 3]], [[5, 2, 3], [1, 7, 3]]])
    decoded = np.array([[[1, 2, 3], [9, 9, 3]], [[5, 2, 3], [9, 9, 3]]])
    found = measure(states, free, decoded=decoded, truth=truth, expected=np.array([0.25, 0.5]))
    assert found.edits == [1.0, 1.0] and found.multiple == [2.0, 1.0]
    assert found.wrong_to_right == [0.5, 0.5] and found.right_to_wrong == [0.0, 0.5]
    assert found.wrong_to_wrong == [0.5, 0.0]
    assert found.retention == [1.0, 0.5]
    assert found.correction == pytest.approx([1 / 3, 1 / 2])
    assert found.solved == [0.5, 0.0] and found.solved_then_lost == 0.5 and found.first_solved == 1.0
    assert found.settle_step == 1.5  # one changed its mind at the second call, the other never
    assert found.never_settled == 1.0
    assert measure(states, free).to_json()["retention"] is None


def test_answers_settle_stay_and_wander() -> None:
    one = np.zeros((12, 3, 1), dtype=int)
    one[8:, 1] = 1  # settled, then another answer
    one[::2, 2] = 2  # never
    found = measure(np.zeros((13, 3, 1)), np.ones((3, 1), bool), decoded=one)
    assert (found.settled_and_stayed, found.settled_and_wandered, found.never_settled) == pytest.approx(
        (1 / 3,) * 3
    )
    assert found.settle_step == pytest.approx((1 + 9 + 12) / 3)


class Exact:
    vocab_size = K

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        return laws.leave_one_out(LAW_A, 1 - float(t[0])).log()[z[:, 0] * K + z[:, 1]]


def test_the_exact_chain_edits_as_often_as_it_must() -> None:
    """The noising process itself, backwards: each of its steps changes a token as often as the forward one does."""
    number, times = 40_000, torch.linspace(1, 0, 9, dtype=torch.float64)
    process, keys = UniformProcess(Linear(), Prior(K)), Keys.from_seeds(range(number))
    x = torch.arange(2 * number).reshape(number, 2) % K
    path = [process.corrupt(x, times[0], keys.stream("start"))]
    for n, (t, s) in enumerate(itertools.pairwise(times)):
        path.append(process.recover(path[-1], x, t, s, keys.stream("step", n)))
    expected = expected_edits(process, times)
    assert expected is not None and expected[0] == pytest.approx(2 / 3)
    found = measure(torch.stack(path).numpy(), np.ones((number, 2), bool), expected=expected, truth=x.numpy())
    assert np.allclose(np.array(found.multiple), 1.0, atol=0.06)
    assert (
        found.retention is not None and found.retention[-1] == 1.0
    )  # x is known: what is right at the end stays


def test_a_leave_one_out_predictor_must_revise_and_the_posterior_need_not() -> None:
    """Exact sums over law A at alpha .8: the raw arg-max is as often right at kept positions as at resampled ones, and
    edits 40 % of all; the posterior's keeps what was kept, finds no resampled one, and edits nothing."""
    alpha = 0.8
    x_hat = laws.leave_one_out(LAW_A, alpha)
    raw = x_hat.argmax(-1)
    posterior = laws.posterior(x_hat, STATES, alpha).argmax(-1)
    found = {}
    for name, decoded in (("raw", raw), ("posterior", posterior)):
        sums = {True: [0.0, 0.0], False: [0.0, 0.0]}
        edits = 0.0
        for a, b in STATES.tolist():
            for kept_a in (True, False):
                for kept_b in (True, False):
                    for z, (za, zb) in enumerate(STATES.tolist()):
                        chance = float(LAW_A[a, b])
                        for x, y, kept in ((a, za, kept_a), (b, zb, kept_b)):
                            chance *= alpha * (x == y) if kept else (1 - alpha) / K
                        for place, (x, kept) in enumerate(((a, kept_a), (b, kept_b))):
                            sums[kept][0] += chance * (int(decoded[z, place]) == x)
                            sums[kept][1] += chance
                            edits += chance * (int(decoded[z, place]) != int(STATES[z, place])) / 2
        found[name] = (sums[True][0] / sums[True][1], sums[False][0] / sums[False][1], edits)
    assert found["raw"] == pytest.approx((0.6667, 0.6667, 0.4), abs=5e-3)
    assert found["raw"][0] == pytest.approx(found["raw"][1], abs=1e-12)
    assert found["posterior"] == pytest.approx((1.0, 0.3333, 0.0), abs=5e-5)
    # the measure finds the same on draws
    number = 60_000
    generator = torch.Generator().manual_seed(0)
    tokens = STATES[torch.multinomial(LAW_A.flatten(), number, replacement=True, generator=generator)]
    measured = kept_and_resampled(
        Exact(),
        UniformProcess(Linear(), Prior(K)),
        tokens,
        torch.ones_like(tokens, dtype=torch.bool),
        1 - alpha,
        Keys.from_seeds(range(number)),
    )
    for name, (kept, resampled, edits) in found.items():
        assert measured[f"{name}_kept"] == pytest.approx(kept, abs=0.01)
        assert measured[f"{name}_resampled"] == pytest.approx(resampled, abs=0.02)
        assert measured[f"{name}_edits"] == pytest.approx(edits, abs=0.01)
    assert abs(measured["raw_difference"]) < 0.02 and measured["posterior_difference"] > 0.6
