"""The simplex state: three forms of one law, against the exact Dirichlet marginals."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from failure_budget import accept, chi_square, reject
from simplax import functional
from simplax.processes.prior import Prior
from simplax.processes.simplex import (
    ATOM_TOLERANCE,
    Atoms,
    Dense,
    Marginal,
    decode,
    draw_atoms,
    draw_dense,
    form,
    num_atoms,
    pinned,
    stick_weights,
    vertex,
)
from simplax.random import Keys, categorical
from strategies import thorough

BATCH, LENGTH = 100, 100
PI = torch.tensor([0.5, 0.05, 0.3, 0.15], dtype=torch.float64)
EDGES = np.array(
    [0, 1e-12, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999]
)
ETAS = [0.01, 1.0, 10.0]


def concentration_p_values(w: torch.Tensor, concentration: torch.Tensor, name: str) -> dict[str, float]:
    """Coordinates of w (n, K), and sums of neighbours, against the Beta laws a Dirichlet gives them.

    In bins, since atoms put mass below their tolerance on zero itself.
    """
    p_values = {}
    for groups in ([0], [1], [2], [3], [0, 1], [1, 2], [0, 3]):
        a = float(concentration[groups].sum())
        edges = np.append(EDGES, 1 + 1e-9)
        probs = np.diff(stats.beta(a, float(concentration.sum()) - a).cdf(edges))
        counts, _ = np.histogram(w[:, groups].sum(-1).clamp(max=1).numpy(), edges)
        p_values[f"{name} {groups}"] = chi_square(counts, probs)
    return p_values


@functools.cache
def drawn(kind: str, eta: float, z: int | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(w, z, p): Dir(eta p + e_z) for a given z, or the joint draw of (w, z) when it is None; w is (n, 4)."""
    x, alpha = 1, 0.6
    p = (1 - alpha) * PI + alpha * torch.eye(4, dtype=torch.float64)[x]
    keys = Keys.from_seeds(range(BATCH)).fold_in(ETAS.index(eta), 9 if z is None else z)
    law = p.expand(BATCH, LENGTH, 4)
    ids = categorical(law, keys.fold_in(1).uniform(LENGTH)) if z is None else torch.full((BATCH, LENGTH), z)
    scale = torch.full((BATCH, LENGTH), eta, dtype=torch.float64)
    if kind == "dense":
        w = draw_dense(ids, law, scale, keys.fold_in(2)).w
    else:

        def more(keys: Keys, n: int) -> torch.Tensor:
            return categorical(law.unsqueeze(2).expand(BATCH, LENGTH, n, 4), keys.uniform(LENGTH, n))

        w = draw_atoms(ids, more, scale, num_atoms(eta), keys.fold_in(2)).dense(4).w
    return w.flatten(0, 1), ids.flatten(), p


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("kind", ["dense", "atoms"])
def test_shifted_draws_have_the_dirichlet_law(kind: str, eta: float) -> None:
    p_values = {}
    for z in range(3):
        w, _, p = drawn(kind, eta, z)
        shifted = eta * p + torch.eye(4, dtype=torch.float64)[z]
        p_values |= concentration_p_values(w, shifted, f"given z={z}")
    accept(p_values)


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("kind", ["dense", "atoms"])
def test_joint_draw_is_the_state_and_its_decode(kind: str, eta: float) -> None:
    """w alone is Dir(eta p), z alone Cat(p), and a second decode of w meets z as often as it must."""
    w, z, p = drawn(kind, eta, None)
    again = decode(Dense(w.unsqueeze(0)), Keys.from_seeds([3]))[0]
    pairs = p[:, None] * (eta * p[None, :] + torch.eye(4)) / (1 + eta)
    accept(
        concentration_p_values(w, eta * p, "w alone")
        | {
            "z": chi_square(torch.bincount(z, minlength=4).numpy(), p.numpy()),
            "z and decode": chi_square(torch.bincount(z * 4 + again, minlength=16).numpy(), pairs.numpy()),
        }
    )


def test_the_law_tests_can_tell_concentrations_apart() -> None:
    w, _, p = drawn("atoms", 1.0, None)
    reject(min(concentration_p_values(w, 1.1 * p, "wrong").values()))


@pytest.mark.parametrize(("name", "eta"), [("atoms", 0.01), ("atoms", 1.0), ("dense", 1.0)])
def test_forms_draw_state_and_token_from_clean_ids(name: str, eta: float) -> None:
    """The three forms from x, at K = 60 with unequal pi: grouped coordinates are Dirichlet again."""
    k, x = 60, 7
    pi = torch.softmax(torch.linspace(-1, 1, k, dtype=torch.float64), 0)
    alpha, scale = torch.full((BATCH, 1), 0.4).double(), torch.full((BATCH, 1), eta).double()
    keys = Keys.from_seeds(range(BATCH))
    state, z = form(name).draw(torch.full((BATCH, 50), x), alpha, scale, eta, Prior(k, pi), keys)
    assert isinstance(state, Dense if name == "dense" else Atoms)
    p = 0.6 * pi
    p[x] += 0.4
    groups = torch.arange(k) * 4 // k
    sums = torch.zeros(BATCH * 50, 4).double().index_add(1, groups, state.dense(k).w.flatten(0, 1))
    merged = torch.zeros(4).double().index_add(0, groups, p)
    counts = torch.bincount(z.flatten(), minlength=k)
    accept(concentration_p_values(sums, eta * merged, name) | {"z": chi_square(counts.numpy(), p.numpy())})


def test_atoms_give_way_to_the_dense_form_when_they_would_be_larger() -> None:
    arguments = (torch.zeros(2, 3, dtype=torch.long), torch.full((2, 1), 0.5), torch.ones(2, 1))
    keys = Keys.from_seeds([1, 2])
    assert isinstance(form("atoms").draw(*arguments, 1.0, Prior(num_atoms(1.0) - 1), keys)[0], Dense)
    assert isinstance(form("atoms").draw(*arguments, 1.0, Prior(num_atoms(1.0)), keys)[0], Atoms)


def test_all_forms_draw_the_same_token() -> None:
    x, alpha, eta = torch.arange(12).reshape(3, 4), torch.full((3, 1), 0.3), torch.full((3, 1), 0.01)
    keys = Keys.from_seeds([5, 6, 7])
    tokens = [
        form(name).draw(x, alpha, eta, 0.01, Prior(12), keys)[1] for name in ("dense", "atoms", "marginal")
    ]
    assert torch.equal(tokens[0], tokens[1]) and torch.equal(tokens[0], tokens[2])


@pytest.mark.parametrize("eta", ETAS)
def test_marginal_form_is_the_mean_of_the_others(eta: float) -> None:
    values = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    p_values = {}
    for kind in ("dense", "atoms"):
        for z in (0, 1):
            w, _, _ = drawn(kind, eta, z)
            column = torch.full((1, 1), 0.0, dtype=torch.float64)
            ids = torch.tensor([[z]])
            mean = Marginal(ids, torch.tensor([[1]]), column + 0.6, column + eta, Prior(4, PI))
            expected = mean.expect(values.expand(1, 1, 4)).item()
            p_values[f"{kind} {z}"] = stats.ttest_1samp((w @ values).numpy(), expected).pvalue
    accept(p_values)


@pytest.mark.parametrize("pi", [None, PI])
def test_marginal_form_is_the_conditional_mean(pi: torch.Tensor | None) -> None:
    x, z = torch.tensor([[0, 1, 2], [3, 3, 0]]), torch.tensor([[0, 2, 1], [3, 0, 1]])
    alpha, eta = torch.tensor([[0.2], [0.9]]).double(), torch.tensor([[0.01], [10.0]]).double()
    state = Marginal(z, x, alpha, eta, Prior(4, pi))
    exact = functional.simplex_conditional(x, z, alpha, eta, Prior(4, pi).dense(alpha)).mean
    torch.testing.assert_close(state.dense(4).w, exact, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("eta", [1e-6, 0.01, 0.3, 1.0, 10.0, 1000.0])
def test_number_of_atoms_is_the_smallest_that_keeps_the_tolerance(eta: float) -> None:
    count, ratio = num_atoms(eta), eta / (1 + eta)
    assert ratio**count <= ATOM_TOLERANCE * (1 + 1e-9)
    assert count == 2 or ratio ** (count - 1) > ATOM_TOLERANCE
    assert num_atoms(0.0) == 1


def test_sticks_sum_to_one_and_shrink_as_they_must() -> None:
    eta, count = 1.5, 6
    weights = stick_weights(torch.full((2000, 20), eta), count, Keys.from_seeds(range(2000)), 20).flatten(
        0, 1
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones(40_000).double(), rtol=0, atol=1e-14)
    assert (weights >= 0).all()
    left = 1 - torch.cat([torch.zeros(40_000, 1), weights.cumsum(-1)], dim=-1).double()
    p_values = {}
    for j in range(1, count):
        mean, square = (eta / (1 + eta)) ** j, (eta / (2 + eta)) ** j
        p_values[f"mean of the mass after {j}"] = stats.ttest_1samp(left[:, j].numpy(), mean).pvalue
        p_values[f"its square after {j}"] = stats.ttest_1samp(left[:, j].square().numpy(), square).pvalue
    accept(p_values)


@pytest.mark.parametrize("eta", [1e-8, 1e-3, 1e6])
def test_sticks_stay_finite_at_extreme_concentrations(eta: float) -> None:
    weights = stick_weights(torch.full((50, 4), eta), 9, Keys.from_seeds(range(50)), 4)
    assert torch.isfinite(weights).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(50, 4).double(), rtol=0, atol=1e-12)
    if eta == 1e6:  # a stick is about -log(U) / eta long, with all its digits
        u = Keys.from_seeds(range(50)).uniform(4, 8)[..., 0]
        torch.testing.assert_close(weights[..., 0], -torch.log(u) / eta, rtol=2e-5, atol=0)


@thorough
@given(st.integers(2, 9), st.integers(1, 6), st.integers(0, 1000))
def test_conversions_keep_inner_products(k: int, j: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(k, (2, 3, j), generator=generator)
    weights = torch.softmax(torch.randn(2, 3, j, generator=generator, dtype=torch.float64), -1)
    values = torch.randn(2, 3, k, generator=generator, dtype=torch.float64)
    alpha, eta = torch.rand(2, 2, 1, generator=generator, dtype=torch.float64)
    marginal = Marginal(ids[..., 0], ids[..., -1], alpha, 5 * eta, Prior(k))
    for state in (Atoms(ids, weights), marginal):
        dense = state.dense(k)
        torch.testing.assert_close(dense.w.sum(-1), torch.ones(2, 3).double(), rtol=0, atol=1e-13)
        torch.testing.assert_close(state.expect(values), dense.expect(values), rtol=1e-12, atol=1e-13)
        assert dense.dense(k) is dense


def test_vertex_and_pinned_states_sit_on_their_tokens() -> None:
    z, tokens = torch.tensor([[0, 2, 1]]), torch.tensor([[3, -1, 2]])
    given_here = torch.tensor([[True, False, True]])
    eye = torch.eye(4, dtype=torch.float64)
    assert torch.equal(vertex(z).dense(4).w, eye[z])
    atoms = Atoms(torch.randint(4, (1, 3, 5)), torch.full((1, 3, 5), 0.2, dtype=torch.float64))
    for state in (atoms, atoms.dense(4)):
        w = pinned(state, tokens, given_here).dense(4).w
        assert torch.equal(w[0, 0], eye[3]) and torch.equal(w[0, 2], eye[2])
        assert torch.equal(w[0, 1], atoms.dense(4).w[0, 1])


def test_dense_draws_survive_the_papers_concentration_at_a_large_vocabulary() -> None:
    """Concentrations near 2e-7: no degenerate row, and the largest coordinate is almost everything."""
    k = 50_257
    z = torch.arange(6).reshape(2, 3) * 1000
    w = draw_dense(z, torch.full((2, 3, k), 1 / k), torch.full((2, 3), 0.01), Keys.from_seeds([1, 2])).w
    torch.testing.assert_close(w.sum(-1), torch.ones(2, 3).double(), rtol=0, atol=1e-12)
    assert (w.gather(-1, z.unsqueeze(-1)) > 1e-6).all()


def test_a_samples_state_is_the_same_in_every_batch() -> None:
    x, alpha, eta = torch.arange(20).reshape(5, 4), torch.full((5, 1), 0.3), torch.full((5, 1), 0.05)
    order = [3, 0, 4]
    for name in ("dense", "atoms"):
        whole, _ = form(name).draw(x, alpha, eta, 0.05, Prior(20), Keys.from_seeds(range(5)))
        some, _ = form(name).draw(x[order], alpha[order], eta[order], 0.05, Prior(20), Keys.from_seeds(order))
        assert torch.equal(whole.dense(20).w[order], some.dense(20).w)


def test_unknown_form_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown form of the simplex state 'sparse': choose one of dense, atoms"
    ):
        form("sparse")
    with pytest.raises(ValueError, match="one positive probability for each of 3 categories"):
        Prior(3, torch.tensor([0.5, 0.5, 0.0]))
    assert math.isclose(float(Prior(4).at(torch.tensor([0]))), 0.25)
