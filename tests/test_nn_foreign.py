"""Bring your own network, and published weights."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.nn import Denoiser, call
from simplax.nn.foreign import accepted_keywords
from simplax.nn.published import backbone_state, load_published, shadow_state
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


def test_published_state_dicts_load() -> None:
    source, target = (
        randomise(Denoiser(7, 5, SMALL, time=identity)),
        Denoiser(7, 5, SMALL, time=identity).eval(),
    )
    state = {f"backbone.{name}": value for name, value in source.state_dict().items()}
    load_published(
        target, {**state, "teacher.weight": torch.zeros(1), "limiting_distribution": torch.zeros(1)}
    )
    with torch.no_grad():
        assert torch.equal(source(Z, T), target(Z, T))
    compiled = {f"backbone._orig_mod.{name}": value for name, value in source.state_dict().items()}
    assert (
        backbone_state(compiled).keys()
        == backbone_state(source.state_dict()).keys()
        == source.state_dict().keys()
    )


def test_published_ema_lists_load_by_order() -> None:
    source, target = (
        randomise(Denoiser(7, 5, SMALL, time=identity)),
        Denoiser(7, 5, SMALL, time=identity).eval(),
    )
    load_published(target, shadow_state(target, [p.detach() for p in source.parameters()]))
    with torch.no_grad():
        assert torch.equal(source(Z, T), target(Z, T))
    with pytest.raises(UserError, match="EMA"):
        shadow_state(Denoiser(8, 5, SMALL), list(source.parameters()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("blocks.0.norm1.weight"), "missing, such as blocks.0.norm1.weight"),
        (lambda s: s.update(extra=torch.zeros(1)), "unknown, such as extra"),
        (
            lambda s: s.update({"vocab_embed.embedding": torch.zeros(8, 16)}),
            "another shape, such as vocab_embed",
        ),
    ],
)
def test_a_foreign_state_dict_is_refused_and_nothing_is_loaded(
    change: Callable[[dict], object], message: str
) -> None:
    denoiser = Denoiser(7, 5, SMALL)
    before = {name: value.clone() for name, value in denoiser.state_dict().items()}
    state = randomise(Denoiser(7, 5, SMALL)).state_dict()
    change(state)
    with pytest.raises(UserError, match=message):
        load_published(denoiser, state)
    assert all(torch.equal(value, before[name]) for name, value in denoiser.state_dict().items())
