"""Bring your own network, and published weights."""

from __future__ import annotations

import functools
import gc
import weakref

import torch
from torch import Tensor, nn

from simplax.nn import Denoiser, call
from simplax.nn.foreign import accepted_keywords
from simplax.nn.published import backbone_state
from test_nn_reference import SMALL, identity, randomise


class Own(nn.Module):
    """The least a user has to write."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 7)

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        return self.table(z) * (1 - t[:, None, None])


class Greedy(Own):
    def forward(self, z: Tensor, t: Tensor, *, given: Tensor | None = None) -> Tensor:
        logits = super().forward(z, t)
        return logits if given is None else logits + given[..., None]


Z, T = torch.randint(7, (2, 5)), torch.tensor([0.25, 0.5])
GIVEN = torch.ones(2, 5, dtype=torch.bool)


def test_own_modules_get_what_they_accept() -> None:
    own, greedy = Own(), Greedy()
    assert torch.equal(call(own, Z, T, given=GIVEN, attend=GIVEN), own(Z, T))
    assert torch.equal(call(greedy, Z, T, given=GIVEN, attend=GIVEN), greedy(Z, T) + 1)


def test_every_kind_of_callable() -> None:
    seen: dict[str, object] = {}

    def function(z: Tensor, t: Tensor, attend: Tensor | None = None) -> Tensor:
        seen.update(attend=attend)
        return z

    def anything(z: Tensor, t: Tensor, **context: object) -> Tensor:
        seen.update(context)
        return z

    class Callable_:
        def __call__(self, z: Tensor, t: Tensor, given: Tensor) -> Tensor:
            seen.update(given=given)
            return z

        method = __call__

    cases = [
        (function, {"attend"}),
        (lambda z, t: z, set()),
        (anything, {"attend", "given"}),
        (Callable_(), {"given"}),
        (Callable_().method, {"given"}),
        (functools.partial(function, attend=None), {"attend"}),
        (torch.compile(function, backend="eager"), {"attend"}),
    ]
    for denoiser, names in cases:
        seen.clear()
        call(denoiser, Z, T, given=GIVEN, attend=GIVEN, self_condition=None)
        assert {name for name, value in seen.items() if value is not None} == names


def test_wrappers_are_asked_about_the_module_inside() -> None:
    own = Own()
    compiled = torch.compile(own, backend="eager")
    assert accepted_keywords(compiled) == accepted_keywords(own) == {"self", "z", "t"}
    assert torch.equal(call(compiled, Z, T, given=GIVEN), own(Z, T))
    assert torch.equal(call(nn.DataParallel(own), Z, T, given=GIVEN), own(Z, T))


def test_our_denoiser_through_call() -> None:
    denoiser = randomise(Denoiser(7, 5, SMALL, time=identity))
    attend = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with torch.no_grad():
        assert torch.equal(call(denoiser, Z, T, attend=attend, step=3), denoiser(Z, T, attend=attend))


def test_the_signature_cache_keeps_no_model_alive() -> None:
    class Local(Own):
        def forward(self, z: Tensor, t: Tensor) -> Tensor:
            return z

    own = Local()
    call(own, Z, T)
    reference = weakref.ref(own)
    del own
    gc.collect()
    assert reference() is None


def test_published_names_lose_their_prefixes() -> None:
    names = list(Denoiser(7, 5, SMALL).state_dict())
    for prefix in ("backbone.", "backbone._orig_mod.", "_orig_mod.", ""):
        published = {f"{prefix}{name}": number for number, name in enumerate(names)}
        if prefix.startswith("backbone."):
            published["teacher.weight"] = -1
        assert backbone_state(published) == {name: number for number, name in enumerate(names)}
