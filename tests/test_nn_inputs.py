"""Every form of the input state, and the optional inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simplax.nn import Denoiser
from simplax.nn.inputs import TokenEmbedding
from simplax.processes.simplex import Atoms
from test_nn_reference import SMALL, identity, randomise


def random_bag(b: int, length: int, atoms: int, size: int) -> Atoms:
    ids = torch.randint(size, (b, length, atoms))
    return Atoms(ids, torch.rand(b, length, atoms).softmax(-1))


def dense(bag: Atoms, size: int) -> Tensor:
    return torch.zeros(*bag.ids.shape[:-1], size).scatter_add(-1, bag.ids, bag.weights)


def test_vertices_agree_in_all_forms() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, time=identity))
    ids, t = torch.randint(7, (3, 12)), torch.rand(3)
    with torch.no_grad():
        logits = denoiser(ids, t)
        one_hot = torch.nn.functional.one_hot(ids, 7).float()
        torch.testing.assert_close(denoiser(one_hot, t), logits, atol=1e-6, rtol=1e-6)
        atoms = Atoms(ids[..., None], torch.ones(3, 12, 1))
        torch.testing.assert_close(denoiser(atoms, t), logits, atol=1e-6, rtol=1e-6)
        spread = Atoms(ids[..., None].expand(3, 12, 4), torch.full((3, 12, 4), 0.25, dtype=torch.float64))
        torch.testing.assert_close(denoiser(spread, t), logits, atol=1e-6, rtol=1e-6)
        assert torch.equal(denoiser(ids.to(torch.int32), t), logits)


def test_atoms_equal_the_dense_product_with_gradients() -> None:
    """Repeated ids add up; the gradient of the table and of the weights is that of w^T E."""
    embed = TokenEmbedding(9, 5)
    bag = random_bag(2, 3, 6, 9)
    weights = bag.weights.clone().requires_grad_()
    upstream = torch.randn(2, 3, 5)
    (embed(Atoms(bag.ids, weights)) * upstream).sum().backward()
    table_grad, embed.embedding.grad = embed.embedding.grad, None
    again = bag.weights.clone().requires_grad_()
    (embed(dense(Atoms(bag.ids, again), 9)) * upstream).sum().backward()
    torch.testing.assert_close(table_grad, embed.embedding.grad, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights.grad, again.grad, atol=1e-6, rtol=1e-5)


def test_dense_input_is_linear_and_float32_under_autocast() -> None:
    denoiser = Denoiser(40, 6, SMALL, autocast=torch.bfloat16)
    w = torch.rand(2, 6, 40).softmax(-1)
    expected = (w.double() @ denoiser.vocab_embed.embedding.double()).float()
    torch.testing.assert_close(denoiser._embed(w, None, None, None), expected, atol=1e-6, rtol=1e-5)


def test_a_prediction_may_leave_out_the_last_rows() -> None:
    embed = TokenEmbedding(8, 5)
    w = torch.rand(2, 3, 7).softmax(-1)
    padded = torch.cat([w, torch.zeros(2, 3, 1)], -1)
    torch.testing.assert_close(embed(w), embed(padded))


def test_vectors() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, input="vectors", vector_size=5, time=identity))
    z, t = torch.randn(3, 12, 5), torch.rand(3)
    logits = denoiser(z, t)
    assert logits.shape == (3, 12, 7)
    with torch.no_grad():
        # the same trunk reading an embedding table whose rows are the projected vectors
        tokens = randomise(Denoiser(36, 12, SMALL, output_size=7, time=identity))
        state = denoiser.state_dict()
        weight, bias = state.pop("vocab_embed.projection.weight"), state.pop("vocab_embed.projection.bias")
        state["vocab_embed.embedding"] = z.flatten(0, 1) @ weight.T + bias
        tokens.load_state_dict(state)
        same = tokens(torch.arange(36).view(3, 12), t)
    torch.testing.assert_close(logits, same, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "z"),
    [
        ({}, torch.zeros(2, 3, 4, dtype=torch.long)),
        ({}, torch.zeros(2, 3, 8)),
        ({}, torch.zeros(2, 13, dtype=torch.long)),
        ({"input": "vectors", "vector_size": 5}, torch.zeros(2, 3, 4)),
        ({"input": "vectors", "vector_size": 5}, torch.zeros(2, 3, dtype=torch.long)),
    ],
)
def test_states_of_the_wrong_shape_are_refused(options: dict, z: Tensor) -> None:
    with pytest.raises(ValueError, match=r"shape|positions"):
        Denoiser(7, 12, SMALL, **options)(z, torch.zeros(2))


def test_given_embedding() -> None:
    architecture = replace(SMALL, given_embedding=True)
    denoiser, plain = randomise(Denoiser(7, 12, architecture)), randomise(Denoiser(7, 12, SMALL))
    ids = torch.randint(7, (2, 12))
    given = torch.zeros(2, 12, dtype=torch.bool)
    given[0, 3] = True
    with torch.no_grad():
        seen, unseen = denoiser(ids, given=given), denoiser(ids)
        assert not torch.allclose(seen[0], unseen[0])
        torch.testing.assert_close(seen[1], unseen[1])  # None means that nothing is given
        assert torch.equal(plain(ids, given=given), plain(ids))
        denoiser.given_embed.weight.zero_()  # as at initialisation
        assert torch.equal(denoiser(ids, given=given), plain(ids))
    denoiser(ids, given=given).square().sum().backward()
    assert denoiser.given_embed.weight.grad.any(-1).all()


def test_position_embedding_adds_a_vector_to_each_position_and_starts_at_zero() -> None:
    architecture = replace(SMALL, position_embedding=True)
    denoiser, plain = randomise(Denoiser(7, 12, architecture)), randomise(Denoiser(7, 12, SMALL))
    ids = torch.full((1, 12), 3)
    assert not Denoiser(7, 12, architecture).position_embed.weight.any()
    with torch.no_grad():
        placed = denoiser(ids)
        denoiser.position_embed.weight.zero_()  # as at initialisation
        assert torch.equal(denoiser(ids), plain(ids))
        denoiser.position_embed.weight.copy_(torch.arange(12.0)[:, None].expand(12, SMALL.width))
        token = plain.vocab_embed(ids)
        shown: list[torch.Tensor] = []
        handle = denoiser.blocks[0].register_forward_pre_hook(lambda _, given: shown.append(given[0]))
        denoiser(ids)
        handle.remove()
    torch.testing.assert_close(shown[0], token + torch.arange(12.0)[:, None])
    assert not torch.allclose(placed, plain(ids))


def test_a_network_with_a_cache_adds_the_vectors_of_the_positions_it_reads() -> None:
    architecture = replace(SMALL, position_embedding=True)
    denoiser = randomise(Denoiser(7, 12, architecture, adaln=False, causal=True)).eval()
    ids = torch.randint(7, (2, 12))
    with torch.no_grad():
        whole, cache = denoiser(ids), denoiser.new_cache(2)
        parts = [denoiser(part, cache=cache) for part in ids.split(5, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-4)


def test_given_embedding_starts_at_zero() -> None:
    assert not Denoiser(7, 12, replace(SMALL, given_embedding=True)).given_embed.weight.any()


def test_self_conditioning_is_neutral_at_initialisation_and_learns() -> None:
    architecture = replace(SMALL, carry="probabilities")
    denoiser, plain = randomise(Denoiser(7, 12, architecture)), randomise(Denoiser(7, 12, SMALL))
    fresh = Denoiser(7, 12, architecture)
    assert not fresh.self_condition_map.weight.any()
    ids, prediction = torch.randint(7, (2, 12)), torch.rand(2, 12, 7).softmax(-1)
    with torch.no_grad():
        conditioned = denoiser(ids, self_condition=prediction)
        assert torch.equal(denoiser(ids), plain(ids))
        assert not torch.allclose(conditioned, plain(ids))
        expected = prediction @ denoiser.vocab_embed.embedding @ denoiser.self_condition_map.weight.T
        moved = denoiser._embed(ids, None, prediction, None) - denoiser._embed(ids, None, None, None)
        torch.testing.assert_close(moved, expected, atol=1e-5, rtol=1e-5)
        denoiser.self_condition_map.weight.zero_()
        torch.testing.assert_close(denoiser(ids, self_condition=prediction), plain(ids))
    denoiser(ids, self_condition=prediction).square().sum().backward()
    assert denoiser.self_condition_map.weight.grad.any()


def test_a_prediction_without_self_conditioning_is_refused() -> None:
    with pytest.raises(ValueError, match='carry="probabilities"'):
        Denoiser(7, 12, SMALL)(torch.zeros(1, 12, dtype=torch.long), self_condition=torch.ones(1, 12, 7) / 7)


def test_a_hidden_carry_is_neutral_at_initialisation_and_learns() -> None:
    architecture = replace(SMALL, carry="hidden")
    denoiser, plain = randomise(Denoiser(7, 12, architecture)), randomise(Denoiser(7, 12, SMALL))
    fresh = Denoiser(7, 12, architecture)
    assert fresh.carry_norm is not None and not any(p.any() for p in fresh.carry_norm.parameters())
    ids = torch.randint(7, (2, 12))
    with torch.no_grad():
        logits, hidden = denoiser(ids, give_carry=True)
        assert torch.equal(logits, denoiser(ids)) and hidden.shape == (2, 12, SMALL.width)
        torch.testing.assert_close(denoiser(ids, carry=torch.zeros_like(hidden)), logits)  # the same as none
        assert not torch.allclose(denoiser(ids, carry=hidden), logits)
        norm = denoiser.carry_norm
        centred = hidden - hidden.mean(-1, keepdim=True)
        scaled = centred / (hidden.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        moved = denoiser._embed(ids, None, None, hidden) - denoiser.vocab_embed(ids)
        torch.testing.assert_close(moved, scaled * norm.weight + norm.bias, atol=1e-5, rtol=1e-5)
        norm.weight.zero_(), norm.bias.zero_()
        torch.testing.assert_close(denoiser(ids, carry=hidden), plain(ids))
    denoiser(ids, carry=hidden).square().sum().backward()
    assert denoiser.carry_norm.weight.grad.any() and denoiser.carry_norm.bias.grad.any()


def test_a_hidden_state_without_a_carry_is_refused() -> None:
    with pytest.raises(ValueError, match='carry="hidden"'):
        Denoiser(7, 12, SMALL)(torch.zeros(1, 12, dtype=torch.long), carry=torch.zeros(1, 12, SMALL.width))
