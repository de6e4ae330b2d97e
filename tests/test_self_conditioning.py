"""Networks that read their own last prediction: shown to half of the samples in training, fed back in sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simplax.methods import MDLM, UDLM, Duo, DuoBase, Method, Simplax
from simplax.methods.base import num_categories
from simplax.nn import Architecture, attribute
from simplax.random import Keys
from simplax.samplers import sample
from simplax.times import stratified
from simplax.typing import Batch, StepContext

K, L, B = 5, 6, 64
PLAIN = Architecture(width=16, depth=1, heads=2, cond_dim=8)
METHODS: dict[str, Method] = {
    "simplax": Simplax(),
    "simplax, reads w": Simplax(form="atoms", reads_w=True),
    "udlm": UDLM(),
    "mdlm": MDLM(),
    "duo-base": DuoBase(),
    "duo": Duo(),
}
TOKENS = Keys.from_seeds(torch.arange(B)).randint(K, L)
CONTEXT = StepContext(Keys.from_seeds(torch.arange(B)).fold_in(3), stratified(B, 0, 0))


def network(method: Method, self_conditioning: bool = True) -> Any:
    torch.manual_seed(0)
    architecture = replace(PLAIN, self_conditioning=self_conditioning)
    denoiser: Any = method.build(K, L, architecture)
    with torch.no_grad():
        denoiser.head.weight.normal_()
        if self_conditioning:
            denoiser.self_condition_map.weight.normal_()
    return denoiser.eval()


def watched(denoiser: nn.Module) -> list[Tensor | None]:
    """What every call is shown of an earlier prediction."""
    shown: list[Tensor | None] = []
    denoiser.register_forward_pre_hook(
        lambda module, arguments, keywords: shown.append(keywords.get("self_condition")), with_kwargs=True
    )
    return shown


@pytest.mark.parametrize("name", METHODS)
def test_half_of_the_samples_are_shown_a_first_prediction(name: str) -> None:
    method, denoiser = METHODS[name], network(METHODS[name])
    shown = watched(denoiser)
    loss = method.loss(denoiser, Batch.of(TOKENS), CONTEXT)
    first, second = shown
    assert first is None and second is not None
    sees = second.sum(-1)  # a distribution at every position of those who see one, nothing elsewhere
    chosen = sees[:, 0] > 0.5
    assert torch.allclose(sees, chosen[:, None].float().expand(B, L), atol=1e-5)
    assert 0.25 * B < int(chosen.sum()) < 0.75 * B

    # the first call is not trained through, the second is, and only the chosen samples feel it
    (gradient,) = torch.autograd.grad(loss.mean(), [denoiser.self_condition_map.weight])
    assert gradient.any()
    with torch.no_grad():
        denoiser.self_condition_map.weight.zero_()
        without = method.loss(denoiser, Batch.of(TOKENS), CONTEXT).per_token
    changed = (loss.per_token.detach() - without).abs().amax(-1) > 1e-6
    assert not changed[~chosen].any() and changed[chosen].float().mean() > 0.8


@pytest.mark.parametrize("name", METHODS)
def test_a_network_without_it_is_called_once(name: str) -> None:
    method, denoiser = METHODS[name], network(METHODS[name], self_conditioning=False)
    shown = watched(denoiser)
    method.loss(denoiser, Batch.of(TOKENS), CONTEXT)
    assert shown == [None]


@pytest.mark.parametrize("name", METHODS)
def test_sampling_feeds_the_previous_prediction(name: str) -> None:
    method, denoiser = METHODS[name], network(METHODS[name])
    shown, predicted = watched(denoiser), []
    denoiser.register_forward_hook(lambda module, arguments, logits: predicted.append(logits))
    sample(
        denoiser, (4, L), sampler=method.sampler(), schedule=method.schedule, num_steps=4, vocab_size=K, seeds=range(4)
    )  # fmt: skip
    assert len(shown) >= 3 and shown[0] is None
    for seen, logits in zip(shown[1:], predicted):
        assert seen is not None
        torch.testing.assert_close(seen, torch.softmax(logits, dim=-1))


def test_wrappers_are_seen_through() -> None:
    method = UDLM()
    denoiser = network(method)
    compiled: Any = torch.compile(denoiser, backend="eager")
    parallel = nn.DataParallel(denoiser)
    plain = method.loss(denoiser, Batch.of(TOKENS), CONTEXT).per_token
    for wrapped in (compiled, parallel, nn.DataParallel(compiled)):
        assert attribute(wrapped, "self_conditioning") is True
        assert num_categories(wrapped) == K
        torch.testing.assert_close(method.loss(wrapped, Batch.of(TOKENS), CONTEXT).per_token, plain)
    drawn = [
        sample(d, (4, L), sampler=method.sampler(), schedule=method.schedule, num_steps=3, vocab_size=K, seeds=range(4))
        for d in (denoiser, compiled, parallel)
    ]  # fmt: skip
    assert all(torch.equal(drawn[0].tokens, other.tokens) for other in drawn[1:])


def test_functions_have_no_prediction_to_condition_on() -> None:
    assert attribute(lambda z, t: z, "self_conditioning") is None
