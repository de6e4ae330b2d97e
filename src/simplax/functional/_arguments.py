"""What the arguments of the paper's functions mean, decided once.

An integer tensor `(...)` is ids, a floating tensor `(..., K)` is a distribution: distinguished by dtype, never by
shape. Scalars in time (`alpha`, `eta`, `rate`) are floats or tensors that broadcast against the leading shape.
Half types are computed in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Scalar = float | Tensor

# wide enough for a float32 softmax over a large vocabulary that was cast to float64 afterwards
_SUM_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-4}
_ALWAYS_DISTRIBUTIONS = ("pi", "x_hat", "w_t")


def checking(validate: bool) -> bool:
    """Checks of values read the tensors, so they are off while a graph is being compiled."""
    return validate and not torch.compiler.is_compiling()


def is_ids(x: Tensor) -> bool:
    return not x.is_floating_point()


@dataclass(frozen=True)
class Space:
    """The categories a call works over: their number, the compute dtype and the prior `pi` as a tensor."""

    size: int
    dtype: torch.dtype
    pi: Tensor

    def distribution(self, x: Tensor) -> Tensor:
        """Ids become one-hot rows; distributions are cast to the compute dtype."""
        if is_ids(x):
            return torch.nn.functional.one_hot(x.long(), self.size).to(self.dtype)
        return x.to(self.dtype)

    def scalar(self, value: Scalar) -> Tensor:
        """A time-dependent scalar with one trailing axis, ready to multiply distributions."""
        return self.exact(value).to(self.dtype)

    def exact(self, value: Scalar) -> Tensor:
        """The same in float64: differences such as 1 - alpha are taken before they are rounded to the compute dtype."""
        return torch.as_tensor(value, dtype=torch.float64, device=self.pi.device).unsqueeze(-1)


def space(pi: Tensor | None, *, validate: bool = True, **arguments: Tensor) -> Space:
    """The space spanned by the arguments of one call; `pi=None` means uniform where another argument determines K."""
    passed = arguments if pi is None else {**arguments, "pi": pi}
    dense = {name: x for name, x in passed.items() if name in _ALWAYS_DISTRIBUTIONS or not is_ids(x)}
    if not dense:
        raise ValueError(
            "pi=None leaves the number of categories unknown here: pass pi, a tensor of shape (K,)"
        )
    for name, x in dense.items():
        if is_ids(x) or x.ndim == 0:
            raise ValueError(
                f"{name} must be a floating tensor of shape (..., K), got {x.dtype} {tuple(x.shape)}"
            )
    sizes = {name: x.shape[-1] for name, x in dense.items()}
    size = next(iter(sizes.values()))
    if any(other != size for other in sizes.values()):
        raise ValueError(f"the arguments disagree about the number of categories K: {sizes}")
    if checking(validate):
        for name, x in passed.items():
            if name in dense:
                check_distribution(name, x)
            else:
                check_ids(name, x, size)
        if pi is not None and not bool((pi > 0).all()):
            raise ValueError("pi must be strictly positive: it has a zero, and the bridge divides by it")
    dtype = torch.float64 if any(x.dtype == torch.float64 for x in dense.values()) else torch.float32
    device = next(iter(arguments.values())).device
    if pi is None:
        return Space(size, dtype, torch.full((size,), 1.0 / size, dtype=dtype, device=device))
    return Space(size, dtype, pi.to(device, dtype))


def check_distribution(name: str, x: Tensor) -> None:
    tolerance = _SUM_TOLERANCE.get(x.dtype, 2e-2)
    if not bool((x >= 0).all()) or not bool(((x.detach().double().sum(-1) - 1).abs() < tolerance).all()):
        raise ValueError(f"{name} must be non-negative and sum to one over its last axis")


def check_ids(name: str, x: Tensor, size: int) -> None:
    if x.numel() and (int(x.min()) < 0 or int(x.max()) >= size):
        raise ValueError(f"{name} must hold ids in [0, {size - 1}], got {int(x.min())} to {int(x.max())}")


def check_alpha(k: Space, alpha: Scalar, *, validate: bool = True) -> None:
    if checking(validate):
        a = k.scalar(alpha)
        if not bool(((a >= 0) & (a <= 1)).all()):
            raise ValueError("alpha must lie in [0, 1]: it is the chance that a token is still clean")


def check_order(k: Space, alpha_s: Scalar, alpha_t: Scalar, *, validate: bool = True) -> None:
    """Two times s <= t, with s < 1 so that alpha_t / alpha_s is defined."""
    if checking(validate):
        early, late = k.scalar(alpha_s), k.scalar(alpha_t)
        if not bool(((early > 0) & (early <= 1) & (late >= 0) & (early >= late)).all()):
            raise ValueError("times s < t need 0 < alpha_s <= 1 and 0 <= alpha_t <= alpha_s")


def check_time(k: Space, alpha_t: Scalar, *, validate: bool = True) -> None:
    """A time t > 0, where the state is noisy and p_t strictly positive."""
    if checking(validate):
        late = k.scalar(alpha_t)
        if not bool(((late >= 0) & (late < 1)).all()):
            raise ValueError(
                f"alpha_t must lie in [0, 1) in {k.dtype}: at time 0 the state is the clean token itself, "
                "without a simplex state or a bridge"
            )


def check_step(k: Space, alpha_s: Scalar, alpha_t: Scalar, *, validate: bool = True) -> None:
    """A reverse step from t > 0 to s, which may be 0."""
    check_time(k, alpha_t, validate=validate)
    check_order(k, alpha_s, alpha_t, validate=validate)


def check_simplex_step(
    k: Space, alpha_s: Scalar, alpha_t: Scalar, eta_s: Scalar, *, validate: bool = True
) -> None:
    """A reverse step that ends in a simplex state, so s > 0."""
    check_step(k, alpha_s, alpha_t, validate=validate)
    check_eta(k, eta_s, validate=validate)
    if checking(validate) and bool((k.scalar(alpha_s) >= 1).any()):
        raise ValueError(f"there is no simplex state at time 0: alpha_s must be below 1 in {k.dtype} here")


def check_rate(k: Space, rate: Scalar, *, validate: bool = True) -> None:
    if checking(validate) and not bool((k.scalar(rate) >= 0).all()):
        raise ValueError("rate must not be negative: it is lambda(t) = -alpha'(t) / alpha(t)")


def check_eta(k: Space, eta: Scalar, *, validate: bool = True) -> None:
    if checking(validate):
        value = k.scalar(eta)
        if not bool(((value > 0) & (value < torch.inf)).all()):
            raise ValueError("the concentration eta must be positive and finite")
