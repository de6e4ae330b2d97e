"""The scheduler for diffusers against the exact law of its chain, and against diffusers' own scheduler."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch import Tensor

from simplax.errors import UserError
from simplax.interop.diffusers import SimplaxScheduler, loo_to_posterior, posterior_to_loo

SIZE, STEPS, DRAWS = 4, 3, 30_000
X_HAT = torch.tensor([0.55, 0.25, 0.15, 0.05], dtype=torch.float64)


# a prediction that depends on the token itself, so that what a step is anchored on matters
BY_TOKEN = torch.stack([0.5 * X_HAT + 0.5 * X_HAT.roll(shift) for shift in range(SIZE)])


def exact(eta: float) -> Tensor:
    """The law of the last token, one position, by summing over all tokens and anchors."""
    pi = torch.full((SIZE,), 1 / SIZE, dtype=torch.float64)
    same, chance = torch.eye(SIZE, dtype=torch.float64), eta / (1 + eta)
    joint = pi[:, None] * ((1 - chance) * same + chance * pi[None, :])  # of the token and the anchor
    for index in range(STEPS):
        alpha_t, alpha_s = index / STEPS, (index + 1) / STEPS
        keep = alpha_t / alpha_s
        noise = keep * same + (1 - keep) * pi[None, :]  # from the token at s to the anchor
        following = torch.zeros_like(joint)
        for z, x_hat in enumerate(BY_TOKEN):
            p_s, p_t = (alpha * x_hat + (1 - alpha) * pi for alpha in (alpha_s, alpha_t))
            law = joint[z] @ (p_s[None, :] * noise.T / p_t[:, None])
            fresh = alpha_s * x_hat + (1 - alpha_s) * pi
            following += law[:, None] * ((1 - chance) * same + chance * fresh[None, :])
        joint = following
    return joint.sum(1)


def walk(scheduler: SimplaxScheduler, prediction: str, floats: bool = False) -> Tensor:
    dice = torch.Generator().manual_seed(7)
    scheduler.set_timesteps(STEPS)
    z = scheduler.sample_prior((DRAWS, 1), SIZE, generator=dice)
    for index, t in enumerate(scheduler.timesteps.tolist()):
        logits = BY_TOKEN.log()[z]
        if prediction == "posterior":
            logits = loo_to_posterior(logits, z, index / STEPS)
        z = scheduler.step(logits, t if floats else index, z, generator=dice).prev_sample
    return z


@pytest.mark.parametrize("prediction", ["posterior", "loo"])
@pytest.mark.parametrize("eta", [0.0, 1.0, 10.0])
def test_the_law_of_the_chain_is_exact(eta: float, prediction: str) -> None:
    scheduler = SimplaxScheduler(eta=eta, prediction=prediction)  # type: ignore[arg-type]
    counts = torch.bincount(walk(scheduler, prediction).flatten(), minlength=SIZE)
    expected = exact(eta) * DRAWS
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(statistic, SIZE - 1) > 1e-6


def test_the_laws_that_are_compared_differ() -> None:
    """A scheduler that ignored eta would be found out by the number of draws above."""
    for one, other in ((0.0, 1.0), (1.0, 10.0)):
        expected = exact(one)
        assert float(((exact(other) - expected) ** 2 / expected).sum()) * DRAWS > 60


def test_index_and_time_say_the_same() -> None:
    scheduler = SimplaxScheduler(eta=1.0)
    assert torch.equal(walk(scheduler, "posterior"), walk(scheduler, "posterior", floats=True))
    scheduler.set_timesteps(5)
    assert [scheduler.index_for_timestep(t) for t in scheduler.timesteps] == list(range(5))
    assert scheduler.index_for_timestep(torch.tensor(3)) == 3
    with pytest.raises(UserError, match="is not one of the 5 steps"):
        scheduler.index_for_timestep(5)


def test_the_conversion_is_bayes_rule() -> None:
    """p(x | z) from p(x | z_-i) and the chance of the token itself, and back."""
    dice = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, SIZE, dtype=torch.float64, generator=dice)
    z, alpha = torch.randint(SIZE, (2, 3), generator=dice), 0.37
    chance = alpha * torch.nn.functional.one_hot(z, SIZE) + (1 - alpha) / SIZE
    posterior = torch.softmax(logits, -1) * chance
    posterior = posterior / posterior.sum(-1, keepdim=True)
    torch.testing.assert_close(loo_to_posterior(logits, z, alpha).softmax(-1), posterior)
    torch.testing.assert_close(posterior_to_loo(loo_to_posterior(logits, z, alpha), z, alpha), logits)


def test_options_shape_the_prediction() -> None:
    z = torch.zeros(DRAWS, 1, dtype=torch.long)
    logits = X_HAT.log().expand(DRAWS, 1, SIZE)
    for options in ({"top_k": 1}, {"top_p": 0.3}, {"temperature": 0.01}):
        scheduler = SimplaxScheduler(eta=0.0, prediction="loo", num_inference_steps=1, **options)
        assert bool((scheduler.step(logits, 0, z).prev_sample == 0).all()), options
    noisy = SimplaxScheduler().add_noise(
        z, torch.full((DRAWS,), 0.25), SIZE, torch.Generator().manual_seed(0)
    )
    assert float((noisy != 0).double().mean()) == pytest.approx(0.25 * 3 / 4, abs=0.02)
    with pytest.raises(UserError, match="eta must not be negative"):
        SimplaxScheduler(eta=-1.0)


def test_it_works_without_diffusers(monkeypatch: pytest.MonkeyPatch) -> None:
    import simplax.interop.diffusers as module

    monkeypatch.setitem(sys.modules, "diffusers", None)
    try:
        plain = importlib.reload(module)
        assert plain.SimplaxScheduler(eta=3.0).config.eta == 3.0
    finally:
        monkeypatch.undo()
        importlib.reload(module)


def test_diffusers_own_scheduler_agrees_at_eta_zero(tmp_path: Path) -> None:
    """Theirs draws a clean token first and routes through it; the law of one step must be the same."""
    diffusers = pytest.importorskip("diffusers", reason="the independent scheduler is diffusers'")
    if not hasattr(diffusers, "DiscreteDDIMScheduler"):
        pytest.skip("this diffusers has no DiscreteDDIMScheduler")
    theirs, mine = diffusers.DiscreteDDIMScheduler(), SimplaxScheduler(eta=0.0)
    theirs.set_timesteps(STEPS)
    mine.set_timesteps(STEPS)
    dice = torch.Generator().manual_seed(3)
    for index in range(STEPS):
        z = torch.arange(SIZE).repeat(DRAWS // SIZE).unsqueeze(-1)
        posterior = loo_to_posterior(X_HAT.log().expand(len(z), 1, SIZE), z, index / STEPS)
        a = mine.step(posterior, index, z, generator=dice).prev_sample
        b = theirs.step(posterior, index, z, temperature=1.0, generator=dice).prev_sample
        tables = [torch.bincount((z * SIZE + each).flatten(), minlength=SIZE**2) for each in (a, b)]
        seen = torch.stack(tables).double()
        seen = seen[:, seen.sum(0) > 0]
        assert stats.chi2_contingency(seen.numpy())[1] > 1e-6
    mine.save_pretrained(tmp_path)
    assert SimplaxScheduler.from_pretrained(tmp_path).config.eta == 0.0
