"""The fused losses equal the plain ones, in value and in all gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simplax.objectives import _fused_function, fused
from simplax.objectives._fused_function import FusedLoss, Head
from simplax.objectives._fused_rows import CrossEntropy
from simplax.objectives.fused import cross_entropy, rate_density
from simplax.processes.prediction import Prediction, Projection
from simplax.processes.prior import Prior
from simplax.processes.simplex import Dense, Marginal, SimplexState, form
from simplax.processes.uniform import corrupt
from simplax.random import Keys

Loss = Callable[..., Tensor]


class Problem:
    """Features, a projection and a noisy batch; every objective of the library on them."""

    def __init__(
        self,
        size: int = 23,
        batch: int = 3,
        length: int = 5,
        width: int = 4,
        *,
        cap: float | None = 3.0,
        dtype: torch.dtype = torch.float64,
        times: tuple[float, ...] = (0.02, 0.5, 0.98),
        eta: float = 0.1,
        seed: int = 0,
        head: Head | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

        self.features = normal(batch, length, width).requires_grad_()
        self.weight = normal(size, width).requires_grad_()
        self.bias = normal(size).requires_grad_()
        self.head = head or Head(cap, chunk=2 * size, block=size)
        self.prior = Prior(size)
        self.x = torch.randint(size, (batch, length), generator=generator)
        self.where = torch.rand(batch, length, generator=generator) < 0.7
        self.alpha = torch.tensor([1 - t for t in times], dtype=torch.float64)[:batch].unsqueeze(-1)
        self.rate = 1 / self.alpha
        self.eta = torch.full_like(self.alpha, eta)
        self.keys = Keys.from_seeds(range(batch))

    def state(self, name: str) -> SimplexState:
        if name == "udlm":
            z = corrupt(self.x, self.alpha, self.prior, self.keys.stream("corrupt"))
            return Marginal(z, self.x, self.alpha, torch.zeros_like(self.alpha), self.prior)
        return form(name).draw(self.x, self.alpha, self.eta, float(self.eta.max()), self.prior, self.keys)[0]

    def prediction(self, late: bool) -> Prediction:
        """x_hat whose projection is left to the loss, or made beforehand."""
        projection = Projection(self.features, self.weight, self.bias, self.head.cap, self.head.dtype)
        return Prediction(projection=projection) if late else Prediction(projection.logits())

    def loss(self, name: str, late: bool) -> Tensor:
        prediction = self.prediction(late)
        pieces = functools.partial(Head, chunk=self.head.chunk, block=self.head.block)
        with mock.patch.object(fused, "Head", pieces):  # as large as they are, tests would see one piece only
            if name == "cross-entropy":
                return cross_entropy(prediction, self.x, self.where)
            if name == "weighted":
                return cross_entropy(prediction, self.x, self.where, self.rate)
            arguments = (self.x, self.state(name), self.alpha, self.rate, self.prior, self.where)
            return rate_density(prediction, *arguments)

    def gradients(self, name: str, late: bool, weights: Tensor | float = 1.0) -> tuple[Tensor, ...]:
        value = self.loss(name, late)
        inputs = (self.features, self.weight, self.bias)
        return value.detach(), *torch.autograd.grad((value * weights).sum(), inputs)


OBJECTIVES = ["cross-entropy", "weighted", "udlm", "marginal", "atoms"]


def agree(problem: Problem, name: str, tolerance: float, weights: Tensor | float = 1.0) -> None:
    ours, plain = (problem.gradients(name, late, weights) for late in (True, False))
    for what, a, b in zip(("value", "features", "weight", "bias"), ours, plain):
        scale = float(b.abs().max()) or 1.0
        error = float((a - b).abs().max()) / scale
        assert error < tolerance, (name, what, error)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("cap", [None, 3.0])
def test_float64_equality(name: str, cap: float | None) -> None:
    agree(Problem(cap=cap, size=100), name, 1e-10)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(OBJECTIVES),
    size=st.integers(2, 70),
    batch=st.integers(1, 3),
    length=st.integers(1, 7),
    chunk=st.integers(1, 600),
    block=st.integers(1, 300),
    cap=st.sampled_from([None, 2.0]),
    eta=st.sampled_from([1e-3, 0.01, 1.0, 30.0]),
    seed=st.integers(0, 100),
)
def test_ugly_shapes(
    name: str,
    size: int,
    batch: int,
    length: int,
    chunk: int,
    block: int,
    cap: float | None,
    eta: float,
    seed: int,
) -> None:
    """Chunks and blocks of any size, with remainders, of one row, larger than everything; few or no scored rows."""
    head = Head(cap, chunk=chunk, block=block)
    agree(Problem(size, batch, length, eta=eta, seed=seed, head=head), name, 1e-10)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_nothing_scored(name: str) -> None:
    problem = Problem()
    problem.where = torch.zeros_like(problem.where)
    value, *gradients = problem.gradients(name, late=True)
    assert all(not t.any() for t in (value, *gradients))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("everywhere", [True, False])
def test_any_upstream_gradient(name: str, everywhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number for all positions is applied to what the forward pass left; anything else sweeps once more."""
    sweeps = []
    sweep = _fused_function.project_and_reduce

    def counting(*args: object, **kwargs: object) -> object:
        sweeps.append(1)
        return sweep(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(_fused_function, "project_and_reduce", counting)
    problem = Problem()
    if everywhere:
        problem.where = torch.ones_like(problem.where)
    agree(problem, name, 1e-10, weights=-0.37)
    assert len(sweeps) == 1
    uneven = torch.linspace(-1, 2, problem.x.numel(), dtype=torch.float64).view(problem.x.shape)
    agree(problem, name, 1e-10, weights=uneven)
    assert len(sweeps) == 3


@pytest.mark.parametrize("weights", [1.0, -0.37, torch.linspace(-1, 2, 15, dtype=torch.float64)])
def test_positions_that_do_not_count_are_left_out_in_the_same_pass(weights: float | Tensor) -> None:
    """Devices that would wait to find the positions that count project all, and weight the others by nothing."""
    problem = Problem()
    leaves = (problem.features, problem.weight, problem.bias)
    counted = problem.where.flatten()
    rows = CrossEntropy(problem.x.flatten(), torch.ones(15, 1, dtype=torch.float64))
    flat = problem.features.flatten(0, 1)
    value = FusedLoss.apply(flat, problem.weight, problem.bias, rows, problem.head, True, counted)
    found = torch.autograd.grad((weights * value).sum(), leaves)
    plain = cross_entropy(problem.prediction(late=False), problem.x, problem.where).flatten()
    torch.testing.assert_close(value, plain, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(found, torch.autograd.grad((weights * plain).sum(), leaves)):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_backward_twice_through_one_graph() -> None:
    problem = Problem()
    total = problem.loss("marginal", late=True).sum()
    first = torch.autograd.grad(total, (problem.features, problem.weight), retain_graph=True)
    second = torch.autograd.grad(total, (problem.features, problem.weight))
    for a, b in zip(first, second):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradcheck(name: str) -> None:
    problem = Problem(size=7, batch=2, length=3, width=3)

    def value(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        problem.features, problem.weight, problem.bias = features, weight, bias
        return problem.loss(name, late=True)

    inputs = (problem.features, problem.weight, problem.bias)
    assert torch.autograd.gradcheck(value, inputs, rtol=1e-4)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_only_what_needs_a_gradient_gets_one(name: str) -> None:
    problem = Problem()
    _, wanted, _, _ = problem.gradients(name, late=False)
    problem.weight, problem.bias = problem.weight.detach(), problem.bias.detach()
    (found,) = torch.autograd.grad(problem.loss(name, late=True).sum(), problem.features)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        assert not problem.loss(name, late=True).requires_grad


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("t", [1e-3, 0.03, 0.5, 0.97, 0.999])
def test_float32_is_as_good_as_the_plain_loss(name: str, t: float) -> None:
    """Against float64 on the same numbers, from t = 1e-3 to .999: 1e-6 of the largest value, 5e-6 of a gradient."""
    arguments = {"size": 3000, "batch": 1, "length": 6, "width": 8, "times": (t,), "cap": 30.0}
    single = Problem(dtype=torch.float32, **arguments)  # type: ignore[arg-type]
    double = Problem(**arguments)  # type: ignore[arg-type]
    for source, target in zip(
        (single.features, single.weight, single.bias), (double.features, double.weight, double.bias)
    ):
        target.data.copy_(source.data)
    ours, exact = single.gradients(name, late=True), double.gradients(name, late=False)
    for what, a, b in zip(("value", "features", "weight", "bias"), ours, exact):
        error = float((a - b).abs().max() / b.abs().max())
        assert error < (1e-6 if what == "value" else 5e-6), (what, error)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bfloat16_products(name: str) -> None:
    """Both ways round logits to bfloat16, each in its own order; both stay within 2 % of float32 in norm."""
    arguments = {"size": 700, "width": 16, "dtype": torch.float32, "times": (0.2, 0.5, 0.8)}
    half, single = (
        Problem(**arguments, head=Head(30.0, dtype, chunk=700 * 4, block=700))  # type: ignore[arg-type]
        for dtype in (torch.bfloat16, None)
    )
    for found, truth in zip(half.gradients(name, late=True), single.gradients(name, late=False)):
        assert (found - truth).norm() < 0.02 * truth.norm()


def test_a_dense_state_and_another_prior_take_the_plain_way() -> None:
    problem = Problem(size=11)
    w = torch.softmax(torch.randn(*problem.x.shape, 11, dtype=torch.float64), -1)
    arguments = (problem.alpha, problem.rate)
    for state, prior in (
        (Dense(w), problem.prior),
        (problem.state("atoms"), Prior(11, torch.softmax(torch.arange(11.0) / 5, 0).double())),
    ):
        ours, plain = (
            rate_density(problem.prediction(late), problem.x, state, *arguments, prior, problem.where)
            for late in (True, False)
        )
        torch.testing.assert_close(ours, plain.to(ours), rtol=1e-5, atol=1e-6)


def test_ambient_autocast_changes_nothing() -> None:
    problem = Problem(dtype=torch.float32)
    wanted = problem.gradients("marginal", late=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = problem.gradients("marginal", late=True)
    assert all(torch.equal(a, b) for a, b in zip(wanted, found))


def test_compiled_callers_get_the_same() -> None:
    problem = Problem(dtype=torch.float32)

    def double(features: Tensor) -> Tensor:
        problem.features = features * 1.0
        return 2 * problem.loss("cross-entropy", late=True).sum()

    features = problem.features
    (wanted,) = torch.autograd.grad(double(features), features)
    compiled = torch.compile(double, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(features), features)
    torch.testing.assert_close(found, wanted)
