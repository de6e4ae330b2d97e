"""Identities of the masked parameterisation and of the psi family, over random inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simplax import functional as F
from strategies import thorough


@st.composite
def masked_problem(draw: st.DrawFn) -> tuple[Tensor, Tensor, int]:
    """Logits with or without a column for the mask, and states with and without masks."""
    size, seed = draw(st.integers(1, 7)), draw(st.integers(0, 2**31))
    scale = draw(st.sampled_from([0.1, 3.0, 60.0]))
    generator = torch.Generator().manual_seed(seed)
    width = size + draw(st.booleans())
    logits = scale * torch.randn(4, 5, width, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, size + 1, (4, 5), generator=generator), size


@thorough
@given(masked_problem())
def test_subs_is_a_law_that_carries_over(problem: tuple[Tensor, Tensor, int]) -> None:
    logits, z, mask = problem
    log_probs = F.subs_log_probs(logits, z, mask)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(4, 5, dtype=torch.float64))
    if logits.shape[-1] > mask:
        assert (log_probs[..., mask] == -torch.inf).all()
    visible = z != mask
    copied = torch.nn.functional.one_hot(z[visible], logits.shape[-1]).double().log()
    assert torch.equal(log_probs[visible], copied)
    # under the mask it is the softmax over the data's categories
    under = logits[..., :mask].log_softmax(-1)[~visible]
    torch.testing.assert_close(log_probs[~visible][..., :mask], under)


@thorough
@given(masked_problem())
def test_subs_gradients_are_finite_and_vanish_where_visible(problem: tuple[Tensor, Tensor, int]) -> None:
    logits, z, mask = problem
    logits.requires_grad_()
    target = torch.where(z == mask, 0, z)
    F.subs_log_probs(logits, z, mask).gather(-1, target[..., None]).sum().backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()
    assert (logits.grad[z != mask] == 0).all()
    if logits.shape[-1] > mask:
        assert (logits.grad[..., mask] == 0).all()


alphas = st.tuples(st.floats(0.0, 0.999), st.floats(0.001, 1.0)).map(lambda p: (max(p), min(p)))


@thorough
@given(masked_problem(), alphas)
def test_absorbing_posterior_reverses_the_process(
    problem: tuple[Tensor, Tensor, int], alpha: tuple[float, float]
) -> None:
    logits, z, mask = problem
    alpha_s, alpha_t = alpha[0], min(alpha[1], 0.999)
    x_hat = F.subs_log_probs(logits, z, mask).exp()
    posterior = F.absorbing_posterior(x_hat, z, alpha_s, alpha_t, mask)
    torch.testing.assert_close(posterior.sum(-1), torch.ones(4, 5, dtype=torch.float64))
    # averaged over z_t given a clean x, the posterior at x is the marginal at s
    x = torch.arange(mask)
    clean = torch.eye(mask + 1, dtype=torch.float64)[x]
    at_mask = F.absorbing_posterior(clean, torch.full((mask,), mask), alpha_s, alpha_t, mask)
    at_x = F.absorbing_posterior(clean, x, alpha_s, alpha_t, mask)
    marginal = alpha_t * at_x + (1 - alpha_t) * at_mask
    expected = alpha_s * clean + (1 - alpha_s) * torch.eye(mask + 1, dtype=torch.float64)[mask]
    torch.testing.assert_close(marginal, expected)


@thorough
@given(st.integers(2, 6), alphas, st.floats(0.0, 1.0), st.booleans())
def test_every_kappa_keeps_the_marginals_of_a_known_token(
    size: int, alpha: tuple[float, float], kappa: float, masked: bool
) -> None:
    alpha_s, alpha_t = alpha[0], min(alpha[1], 0.999)
    eye = torch.eye(size, dtype=torch.float64)
    pi = eye[-1] if masked else torch.full((size,), 1.0 / size, dtype=torch.float64)
    x = eye[0]
    marginal = alpha_t * x + (1 - alpha_t) * pi
    (z,) = marginal.nonzero(as_tuple=True)  # from a token that cannot be there no posterior is defined
    step = F.psi_posterior(x.expand(len(z), size), z, alpha_s, alpha_t, kappa, pi)
    weights = marginal[z]
    torch.testing.assert_close(weights @ step, alpha_s * x + (1 - alpha_s) * pi)


def test_remasking_is_the_psi_step_with_kappa_from_its_chance() -> None:
    """An unmasked token is remasked with chance sigma_r; a masked one is filled at ReMDM's rate."""
    alpha_s, alpha_t, chance = 0.6, 0.5, 0.07
    mask = torch.eye(4, dtype=torch.float64)[3]
    x_hat = torch.tensor([[0.2, 0.3, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    step = F.psi_posterior(x_hat, torch.tensor([3, 1]), alpha_s, alpha_t, 1 - chance / (1 - alpha_s), mask)
    assert float(step[1, 3]) == pytest.approx(chance)
    filled = (alpha_s - (1 - chance) * alpha_t) / (1 - alpha_t)
    torch.testing.assert_close(step[0, :3], filled * x_hat[0, :3])


def test_bad_arguments_are_refused() -> None:
    uniform = torch.full((3,), 1 / 3)
    with pytest.raises(ValueError, match="mask"):
        F.absorbing_posterior(uniform, torch.tensor(2), 0.9, 0.5, 2)
    with pytest.raises(ValueError, match="kappa"):
        F.psi_posterior(uniform, torch.tensor(1), 0.9, 0.5, 1.5)
    with pytest.raises(ValueError, match="alpha_t"):
        F.psi_posterior(uniform, torch.tensor(1), 0.4, 0.5, 0.5)
