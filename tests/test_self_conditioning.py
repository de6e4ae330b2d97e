"""Networks that read what their last call left: a prediction or a hidden state, in training, measuring and sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.methods import MDLM, SDM, UDLM, Duo, DuoBase, Method, Simplax
from simplax.nn import Architecture, Network, attribute, num_categories
from simplax.nn.carry import CARRIES, carry_of
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
    "sdm": SDM(),
}
MEASURED = {name: METHODS[name] for name in ("simplax", "simplax, reads w", "udlm", "mdlm")}
TOKENS = Keys.from_seeds(torch.arange(B)).randint(K, L)
CONTEXT = StepContext(Keys.from_seeds(torch.arange(B)).fold_in(3), stratified(B, 0, 0))
MEASURING = replace(CONTEXT, training=False)


def network(method: Method, carry: str = "probabilities") -> Any:
    torch.manual_seed(0)
    denoiser: Any = method.build(K, L, replace(PLAIN, carry=carry))
    with torch.no_grad():
        for block in denoiser.blocks:  # gates are closed at first, and attention would tell nothing
            block.adaLN_modulation.bias.fill_(0.5)
        denoiser.head.weight.normal_()
        for parameter in reader(denoiser):
            parameter.normal_()
    return denoiser.eval()


def reader(denoiser: Any) -> list[Tensor]:
    """The parameters through which a network reads what it carries."""
    if denoiser.carry == "probabilities":
        return [denoiser.self_condition_map.weight]
    return [] if denoiser.carry == "none" else [denoiser.carry_norm.weight]


def watched(denoiser: nn.Module) -> list[tuple[int, Tensor | None]]:
    """For every call, the number of its sequences and what it is shown of an earlier one."""
    shown: list[tuple[int, Tensor | None]] = []

    def note(module: nn.Module, arguments: Any, keywords: Any) -> None:
        state = arguments[0]
        count = len(state if isinstance(state, Tensor) else state.ids)
        shown.append((count, keywords.get("self_condition", keywords.get("carry"))))

    denoiser.register_forward_pre_hook(note, with_kwargs=True)
    return shown


def test_half_of_the_samples_read_a_prediction_and_most_read_a_hidden_state() -> None:
    assert CARRIES["probabilities"].share == 0.5
    assert CARRIES["hidden"].share == 0.9
    assert CARRIES["mean"].share == 0.25


@pytest.mark.parametrize("carry", ["probabilities", "hidden"])
@pytest.mark.parametrize("name", METHODS)
def test_a_share_of_the_samples_is_shown_a_first_call(name: str, carry: str) -> None:
    method, denoiser = METHODS[name], network(METHODS[name], carry)
    shown, share = watched(denoiser), CARRIES[carry].share
    chosen = CONTEXT.keys.stream("carry").uniform(1)[:, 0] < share
    loss = method.loss(denoiser, Batch.of(TOKENS), CONTEXT)
    (first_count, first), (second_count, second) = shown
    # the first call runs for those who read it and nobody else
    assert first is None and first_count == int(chosen.sum())
    assert second is not None and second_count == B
    assert (share - 0.25) * B < int(chosen.sum()) < B
    assert not second[~chosen].any() and bool(second[chosen].any(-1).all())
    if carry == "probabilities":
        assert second.shape == (B, L, K)
        torch.testing.assert_close(second[chosen].sum(-1), torch.ones(first_count, L))

    # the first call is not trained through, the second is, and only the chosen samples feel it
    assert not second.requires_grad
    (gradient,) = torch.autograd.grad(loss.mean(), reader(denoiser))
    assert gradient.any()
    with torch.no_grad():
        reader(denoiser)[0].zero_()
        without = method.loss(denoiser, Batch.of(TOKENS), CONTEXT).per_token
    changed = (loss.per_token.detach() - without).abs().amax(-1) > 1e-6
    assert not changed[~chosen].any()
    counts = loss.per_token.detach().any(-1)  # in some sequences nothing was masked
    assert counts.float().mean() > 0.7 and changed[chosen & counts].float().mean() > 0.8


@pytest.mark.parametrize("carry", ["probabilities", "hidden"])
@pytest.mark.parametrize("name", METHODS)
def test_a_loss_that_is_measured_has_a_first_call_for_all(name: str, carry: str) -> None:
    """No coin: what is compared between steps is the network that a sampler uses."""
    method, denoiser = METHODS[name], network(METHODS[name], carry)
    shown = watched(denoiser)
    method.loss(denoiser, Batch.of(TOKENS), MEASURING)
    (first_count, first), (second_count, second) = shown
    assert first is None and first_count == second_count == B
    assert second is not None and bool(second.any(-1).all())


@pytest.mark.parametrize("carry", ["probabilities", "hidden"])
@pytest.mark.parametrize("name", MEASURED)
def test_likelihoods_are_bounds_with_and_without_a_first_call(name: str, carry: str) -> None:
    """`carry=False` is the bound of the network that never reads anything."""
    method: Any = MEASURED[name]
    denoiser, batch = network(method, carry), Batch.of(TOKENS)
    for term in ("nll", "boundary_terms"):
        shown = watched(denoiser)
        with torch.no_grad():
            read = getattr(method, term)(denoiser, batch, CONTEXT).per_token
            assert any(seen is not None for _, seen in shown)
            assert all(count == B for count, _ in shown)
            shown.clear()
            empty = getattr(method, term)(denoiser, batch, CONTEXT, carry=False).per_token
        assert all(seen is None for _, seen in shown)
        assert not torch.allclose(read, empty)


@pytest.mark.parametrize("name", METHODS)
def test_a_network_without_it_is_called_once(name: str) -> None:
    method, denoiser = METHODS[name], network(METHODS[name], "none")
    shown = watched(denoiser)
    method.loss(denoiser, Batch.of(TOKENS), CONTEXT)
    assert shown == [(B, None)]


@pytest.mark.parametrize("carry", ["probabilities", "hidden"])
@pytest.mark.parametrize("name", METHODS)
def test_sampling_feeds_what_the_previous_call_left(name: str, carry: str) -> None:
    """Each sequence its own, though some samplers call the network on a part of the batch only."""
    method, denoiser = METHODS[name], network(METHODS[name], carry)
    shown, left = watched(denoiser), []
    denoiser.register_forward_hook(lambda module, arguments, result: left.append(result))

    def draw(seeds: list[int]) -> Tensor:
        out = sample(
            denoiser, (len(seeds), L), sampler=method.sampler(), process=method.process(denoiser), num_steps=4,
            vocab_size=K, seeds=seeds,
        )  # fmt: skip
        return out.tokens

    alone = []
    for seed in range(4):
        shown.clear(), left.clear()
        alone.append(draw([seed]))
        assert len(shown) >= 2 and shown[0][1] is None
        for (_, seen), result in zip(shown[1:], left):
            assert seen is not None
            wanted = torch.softmax(result, dim=-1) if carry == "probabilities" else result[1]
            torch.testing.assert_close(seen, wanted)
    assert torch.equal(draw([0, 1, 2, 3]), torch.cat(alone))


@pytest.mark.parametrize("carry", ["probabilities", "hidden"])
def test_wrappers_are_seen_through(carry: str) -> None:
    """Compiled networks keep their batch whole and blank what is not chosen: the same loss."""
    method = UDLM()
    denoiser = network(method, carry)
    compiled: Any = torch.compile(denoiser, backend="eager")
    parallel = nn.DataParallel(denoiser)
    plain = method.loss(denoiser, Batch.of(TOKENS), CONTEXT).per_token
    shown = watched(denoiser)
    for wrapped in (compiled, parallel, nn.DataParallel(compiled)):
        assert attribute(wrapped, "carry") == carry
        assert Network.of(wrapped).carry is CARRIES[carry]
        assert num_categories(wrapped) == K
        torch.testing.assert_close(method.loss(wrapped, Batch.of(TOKENS), CONTEXT).per_token, plain)
    assert [count for count, _ in shown] == [B] * 6
    drawn = [
        sample(d, (4, L), sampler=method.sampler(), schedule=method.schedule, num_steps=3, vocab_size=K, seeds=range(4))
        for d in (denoiser, compiled, parallel)
    ]  # fmt: skip
    assert all(torch.equal(drawn[0].tokens, other.tokens) for other in drawn[1:])


def test_functions_carry_nothing_and_foreign_networks_may_ask_for_predictions() -> None:
    assert not carry_of(lambda z, t: z).carries

    class Own(nn.Module):
        self_conditioning = True

    assert carry_of(Own()) is CARRIES["probabilities"]


def test_an_unknown_carry_is_refused() -> None:
    with pytest.raises(UserError, match="carry"):
        replace(PLAIN, carry="everything")
