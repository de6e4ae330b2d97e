"""FLM in the image of its embedding is FLM on K-vectors, exactly."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from simplax import functional as F
from simplax.methods import CANDI, FLM, Method
from simplax.nn import Architecture, Denoiser
from simplax.nn.candi import HybridDenoiser
from simplax.nn.flm import OneHotDenoiser
from simplax.processes.hybrid import Hybrid
from simplax.processes.onehot import euler_step, gram_factor, noised, projected_noise
from simplax.random import Keys
from simplax.samplers.loop import sample
from simplax.typing import Batch, StepContext

SMALL = Architecture(width=8, depth=1, heads=2, cond_dim=8)


def network(y: Tensor, mixing: Tensor, head: Tensor) -> Tensor:
    """A stand-in that reads vectors and mixes positions."""
    return torch.tanh(y @ mixing + y.mean(1, keepdim=True)) @ head


@pytest.mark.parametrize("size", [5, 40])
def test_sampling_in_the_image_equals_sampling_on_one_hot_vectors(size: int) -> None:
    keys = Keys.from_seeds([1, 2, 3])
    rows, mixing, head = (
        keys.fold_in(n).normal(*shape, dtype=torch.float64)[0]
        for n, shape in enumerate([(size, 8), (8, 8), (8, size)])
    )
    z = keys.fold_in(9).normal(6, size, dtype=torch.float64)
    y = z @ rows
    gammas = F.flm_gamma(torch.linspace(0, 1, 17, dtype=torch.float64), size)
    for t, s in itertools.pairwise(gammas[:-1]):
        on_vectors = torch.softmax(network(z @ rows, mixing, head), -1)
        in_image = torch.softmax(network(y, mixing, head), -1)
        z, y = euler_step(z, on_vectors, t, s), euler_step(y, in_image @ rows, t, s)
        torch.testing.assert_close(y, z @ rows, rtol=0, atol=1e-12)
    assert torch.equal(network(y, mixing, head).argmax(-1), network(z @ rows, mixing, head).argmax(-1))


@pytest.mark.parametrize("size", [5, 40])
def test_training_states_have_the_law_of_projected_one_hot_states(size: int) -> None:
    """Both are Gaussian: means agree, and so do covariances."""
    rows = Keys.from_seeds([0]).normal(size, 8, dtype=torch.float64)[0]
    factor = rows if size <= 8 else gram_factor(rows)
    torch.testing.assert_close(factor.T @ factor, rows.T @ rows, rtol=1e-12, atol=1e-12)
    noise = projected_noise(rows, 4000, Keys.from_seeds(range(10))).flatten(0, 1)
    covariance = noise.T @ noise / len(noise)
    torch.testing.assert_close(covariance, rows.T @ rows, rtol=0, atol=0.06 * float((rows.T @ rows).max()))
    x, gamma = torch.tensor([[0, 3]]), torch.tensor([0.3], dtype=torch.float64)
    xi = Keys.from_seeds([7]).normal(2, size, dtype=torch.float64)
    one_hot = torch.nn.functional.one_hot(x, size).double()
    torch.testing.assert_close(
        noised(one_hot, xi, gamma) @ rows, noised(rows[x], xi @ rows, gamma), rtol=0, atol=1e-12
    )


def test_noise_of_a_singular_table_is_finite() -> None:
    rows = torch.ones(20, 4)
    assert bool(projected_noise(rows, 3, Keys.from_seeds([0])).isfinite().all())


def test_the_gradient_reaches_the_table_through_the_noise() -> None:
    """In expectation: E |xi E|^2 = |E|^2, whose gradient is 2 E, whichever way the noise is drawn."""
    rows = Keys.from_seeds([0]).normal(40, 8, dtype=torch.float64)[0].requires_grad_()
    noise = projected_noise(rows, 2000, Keys.from_seeds(range(20)))
    (gradient,) = torch.autograd.grad(noise.square().sum(-1).mean(), rows)
    torch.testing.assert_close(gradient, 2 * rows.detach(), rtol=0, atol=0.15)


@pytest.mark.parametrize("method", [FLM(), CANDI()], ids=["flm", "candi"])
def test_no_noise_tensor_has_an_entry_per_category(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    size, length, drawn = 300, 3, []
    original = Keys.normal

    def normal(self: Keys, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        drawn.append(shape)
        return original(self, *shape, dtype=dtype)

    monkeypatch.setattr(Keys, "normal", normal)
    denoiser = method.build(size, length, SMALL)
    batch = Batch.of(torch.randint(size, (2, length)))
    context = StepContext(Keys.from_seeds([0, 1]), torch.tensor([0.3, 0.8], dtype=torch.float64))
    method.loss(denoiser, batch, context).mean().backward()
    sample(
        denoiser,
        (2, length),
        sampler=method.sampler(),
        schedule=method.schedule,
        num_steps=3,
        vocab_size=size,
        seeds=[0, 1],
    )
    assert drawn and max(math.prod(shape) for shape in drawn) <= length * SMALL.width


def test_the_sampler_is_the_chain_on_one_hot_vectors() -> None:
    """The whole loop against a literal one that keeps K-vectors and feeds them to the same weights."""
    size, length, steps = 6, 4, 7
    torch.manual_seed(0)
    denoiser = FLM().build(size, length, SMALL)
    assert isinstance(denoiser, OneHotDenoiser)
    for parameter in denoiser.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    keys = Keys.from_seeds([5, 6]).fold_in(0).fold_in(1)
    z = keys.normal(length, size, dtype=torch.float64)
    times = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    gammas = F.flm_gamma(times, size)
    for n in range(steps):
        logits = denoiser((z @ denoiser.table.double()).float(), torch.full((2,), 1 - float(times[n])))
        p = torch.softmax(logits / 0.9, -1).double()
        z = euler_step(z, p, gammas[n], gammas[n + 1])
    out = sample(
        denoiser,
        (2, length),
        sampler=FLM().sampler(),
        schedule=FLM().schedule,
        num_steps=steps,
        vocab_size=size,
        seeds=[5, 6],
        temperature=0.9,
    )
    assert torch.equal(out.tokens, logits.argmax(-1))
    assert out.nfe == steps


def test_networks_read_vectors_as_dense_networks_read_states() -> None:
    """The trunk is the common one: fed z E it answers as the token network does when fed z."""
    torch.manual_seed(0)
    dense = Denoiser(6, 4, SMALL, time=lambda t: t)
    for parameter in dense.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    vectors = FLM().build(6, 4, SMALL)
    assert isinstance(vectors, OneHotDenoiser)
    vectors.trunk.load_state_dict(dense.state_dict())
    z, t = torch.randn(2, 4, 6), torch.tensor([0.2, 0.9])
    torch.testing.assert_close(vectors(z @ dense.vocab_embed.embedding, 1 - t), dense(z, t))


def test_candi_reads_tokens_and_mixtures_with_its_mask() -> None:
    torch.manual_seed(0)
    denoiser = CANDI(mix=0.25).build(6, 2, SMALL)
    assert isinstance(denoiser, HybridDenoiser)
    seen: list[Tensor] = []
    denoiser.trunk.vocab_embed.register_forward_hook(lambda module, inputs, output: seen.append(output))
    y, sigma = torch.randn(1, 2, 8), torch.tensor(0.7)
    denoiser(Hybrid(y, torch.tensor([[True, False]]), sigma), torch.tensor([0.5]))
    mask = denoiser.table[-1] / denoiser.table[-1].norm()
    torch.testing.assert_close(seen[0][0, 0], y[0, 0])
    torch.testing.assert_close(seen[0][0, 1], 0.25 * mask + 0.75 * y[0, 1] / math.sqrt(1 + 0.49))
    torch.testing.assert_close(denoiser.rows().norm(dim=-1), torch.ones(6))
