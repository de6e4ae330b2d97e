"""Masks, cache, relations, soft-cap, checkpointing and compilation."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.nn import PRESETS, RELATIONS, Architecture, Denoiser
from simplax.schedules import LogLinear
from test_nn_reference import SMALL, identity, randomise

GRID = replace(SMALL, relations="sudoku4")


def ids_like(b: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(7, (b, length), generator=torch.Generator().manual_seed(seed))


def autoregressive(architecture: Architecture = SMALL, length: int = 12) -> Denoiser:
    return randomise(Denoiser(7, length, architecture, adaln=False, causal=True))


def test_forward_is_logits_of_features() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, output_size=9, time=identity))
    ids, t = ids_like(2, 12), torch.rand(2)
    with torch.no_grad():
        features = denoiser.features(ids, t)
        assert features.shape == (2, 12, 16) and features.dtype == torch.float32
        assert denoiser(ids, t).shape == (2, 12, 9)
        assert torch.equal(denoiser(ids, t), denoiser.logits(features))
        torch.testing.assert_close(denoiser.head(features), denoiser.logits(features))


@pytest.mark.parametrize(("architecture", "length"), [(SMALL, 12), (GRID, 16)])
def test_a_causal_network_does_not_see_the_future(architecture: Architecture, length: int) -> None:
    denoiser = autoregressive(architecture, length)
    ids = ids_like(1, length)
    changed = ids.clone()
    changed[0, 7] = (ids[0, 7] + 1) % 7
    with torch.no_grad():
        before, after = denoiser(ids), denoiser(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert ((before - after)[0, 7:].abs().amax(-1) > 1e-4).all()


def test_a_bidirectional_network_sees_everything() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL))
    gradient_sources = denoiser.vocab_embed(ids_like(1, 12)).detach().requires_grad_()
    denoiser.vocab_embed.forward = lambda z: gradient_sources
    denoiser(ids_like(1, 12))[0, 0].square().sum().backward()
    assert gradient_sources.grad.abs().amax(-1).gt(0).all()


@pytest.mark.parametrize("chunks", [[12], [1] * 12, [5, 1, 1, 5], [1, 11]])
def test_cache_equals_the_full_forward(chunks: list[int]) -> None:
    denoiser, ids = autoregressive(), ids_like(3, 12)
    with torch.no_grad():
        cache = denoiser.new_cache(3)
        parts = [denoiser(part, cache=cache) for part in ids.split(chunks, 1)]
        torch.testing.assert_close(torch.cat(parts, 1), denoiser(ids), atol=1e-5, rtol=1e-5)
    assert cache.length == 12


def test_cache_with_relations_and_time() -> None:
    denoiser = randomise(Denoiser(7, 16, GRID, time=identity, causal=True))
    ids, t = ids_like(2, 16), torch.rand(2)
    with torch.no_grad():
        cache = denoiser.new_cache(2)
        parts = [denoiser(part, t, cache=cache) for part in ids.split([3, 1, 12], 1)]
        torch.testing.assert_close(torch.cat(parts, 1), denoiser(ids, t), atol=1e-5, rtol=1e-5)


def test_cache_in_bfloat16() -> None:
    denoiser, ids = autoregressive(), ids_like(3, 12)
    denoiser.autocast = torch.bfloat16
    with torch.no_grad():
        cache = denoiser.new_cache(3)
        parts = [denoiser(part, cache=cache) for part in ids.split(4, 1)]
        torch.testing.assert_close(torch.cat(parts, 1), denoiser(ids), atol=0.05, rtol=0.05)


def test_cache_misuse_is_refused() -> None:
    bidirectional, causal = Denoiser(7, 12, SMALL), autoregressive()
    with pytest.raises(ValueError, match="causal"):
        bidirectional(ids_like(1, 12), cache=causal.new_cache(1))
    with pytest.raises(ValueError, match="padding"):
        attend = torch.ones(1, 12, dtype=torch.bool)
        causal(ids_like(1, 12), cache=causal.new_cache(1), attend=attend)
    with torch.no_grad(), pytest.raises(ValueError, match="13 positions"):
        cache = causal.new_cache(1)
        causal(ids_like(1, 12), cache=cache)
        causal(ids_like(1, 1), cache=cache)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("architecture", [SMALL, GRID])
def test_padding_does_not_reach_the_rest(causal: bool, architecture: Architecture) -> None:
    denoiser = randomise(Denoiser(7, 16, architecture, causal=causal))
    ids = ids_like(2, 16)
    attend = torch.ones(2, 16, dtype=torch.bool)
    attend[0, 9:] = False
    changed = torch.where(attend, ids, (ids + 1) % 7)
    with torch.no_grad():
        logits = denoiser(ids, attend=attend)
        assert logits.isfinite().all()
        torch.testing.assert_close(denoiser(changed, attend=attend)[attend], logits[attend])
        torch.testing.assert_close(logits[:1, :9], denoiser(ids[:1, :9]), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(logits[1:], denoiser(ids[1:]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("architecture", [SMALL, GRID])
def test_left_padding_and_empty_rows_stay_finite(causal: bool, architecture: Architecture) -> None:
    denoiser = randomise(Denoiser(7, 16, architecture, causal=causal)).train()
    attend = torch.zeros(2, 16, dtype=torch.bool)
    attend[0, 6:] = True
    denoiser(ids_like(2, 16), attend=attend).square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in denoiser.parameters())


def test_sudoku_relations() -> None:
    matrices = RELATIONS["sudoku9"]()
    assert matrices.shape == (4, 81, 81)
    self_, row, column, box = matrices
    assert torch.equal(self_, torch.eye(81, dtype=torch.bool))
    for relation in (row, column, box):
        assert torch.equal(relation, relation.T) and (relation.sum(-1) == 8).all()
        assert not (relation & self_).any()
    assert ((row | column | box).sum(-1) == 20).all()  # every cell has twenty peers
    assert ((row & box).sum(-1) == 2).all() and not (row & column).any()
    first = box[0].nonzero().flatten().tolist()
    assert first == [1, 2, 9, 10, 11, 18, 19, 20]


def test_relations_are_neutral_at_initialisation() -> None:
    biased, plain = randomise(Denoiser(7, 16, GRID)), randomise(Denoiser(7, 16, SMALL))
    ids = ids_like(2, 16)
    assert not Denoiser(7, 16, GRID).relation_bias.weight.any()
    with torch.no_grad():
        assert not torch.allclose(biased(ids), plain(ids))
        biased.relation_bias.weight.zero_()
        torch.testing.assert_close(biased(ids), plain(ids), atol=1e-5, rtol=1e-5)


def test_relations_sum_per_pair_and_have_gradients() -> None:
    denoiser = randomise(Denoiser(7, 16, GRID))
    weight, matrices = denoiser.relation_bias.weight, RELATIONS["sudoku4"]()
    bias = denoiser.relation_bias(0, 16)
    assert bias.shape == (2, 1, 2, 16, 16)
    torch.testing.assert_close(bias[1, 0, 1, 0, 1], weight[1, 1, 1] + weight[1, 1, 3])  # row and box
    torch.testing.assert_close(bias[1, 0, 1, 0, 2], weight[1, 1, 1])  # row only
    torch.testing.assert_close(bias[0, 0, 1, 3, 3], weight[0, 1, 0])  # self only
    assert not bias[0, 0, 1, 0, 6].any() and not matrices[:, 0, 6].any()
    denoiser(ids_like(2, 16)).square().sum().backward()
    assert weight.grad.abs().gt(0).all()


def test_a_strong_relation_decides_attention() -> None:
    """With a large bias on 'self', a network of one layer no longer sees other positions."""
    denoiser = randomise(Denoiser(7, 16, replace(GRID, depth=1)))
    with torch.no_grad():
        denoiser.relation_bias.weight.zero_()
        denoiser.relation_bias.weight[..., 0] = 1e4
        ids = ids_like(1, 16)
        changed = ids.clone()
        changed[0, 1] = (ids[0, 1] + 1) % 7
        difference = (denoiser(ids) - denoiser(changed)).abs().amax(-1)[0]
    assert difference[1] > 1e-3 and difference[torch.arange(16) != 1].max() < 1e-6


def test_relations_need_their_own_length() -> None:
    with pytest.raises(UserError, match="length 16, not 12"):
        Denoiser(7, 12, GRID)


def test_soft_cap() -> None:
    capped, plain = (
        randomise(Denoiser(7, 12, replace(SMALL, soft_cap=cap)), scale=0.6) for cap in (3.0, None)
    )
    ids = ids_like(2, 12)
    with torch.no_grad():
        logits = plain(ids)
        assert logits.abs().max() > 3.5
        torch.testing.assert_close(capped(ids), 3.0 * torch.tanh(logits / 3.0))
        assert capped(ids).abs().max() <= 3.0


@pytest.mark.parametrize("architecture", [SMALL, GRID])
def test_checkpointing_changes_neither_logits_nor_gradients(architecture: Architecture) -> None:
    """Also with dropout, whose masks must be the same when a block is computed again."""
    gradients = []
    for checkpointing in (False, True):
        chosen = replace(architecture, checkpointing=checkpointing, dropout=0.3)
        denoiser = randomise(Denoiser(7, 16, chosen, time=identity)).train()
        torch.manual_seed(0)
        loss = denoiser(ids_like(2, 16), torch.tensor([0.2, 0.7])).logsumexp(-1).sum()
        loss.backward()
        gradients.append([loss.detach(), *(p.grad for p in denoiser.parameters())])
    for kept, recomputed in zip(*gradients):
        torch.testing.assert_close(kept, recomputed, atol=1e-6, rtol=1e-6)


def test_dropout_is_off_in_evaluation() -> None:
    denoiser = randomise(Denoiser(7, 12, replace(SMALL, dropout=0.5)))
    ids = ids_like(2, 12)
    with torch.no_grad():
        assert torch.equal(denoiser(ids), denoiser(ids))
        denoiser.train()
        assert not torch.equal(denoiser(ids), denoiser(ids))


@pytest.mark.parametrize(
    "changes",
    [{"width": 15}, {"heads": 0}, {"dropout": 1.0}, {"soft_cap": 0.0}, {"relations": "chess"}],
)
def test_bad_architectures_are_refused(changes: dict) -> None:
    with pytest.raises(UserError):
        replace(SMALL, **changes)


def test_contradictory_options_are_refused() -> None:
    with pytest.raises(ValueError, match="vector_size"):
        Denoiser(7, 12, SMALL, input="vectors")
    with pytest.raises(ValueError, match="time"):
        Denoiser(7, 12, SMALL, adaln=False, time=identity)
    with pytest.raises(ValueError, match="time"):
        Denoiser(7, 12, SMALL, time=identity)(ids_like(1, 12))


def test_presets_and_copies() -> None:
    assert set(PRESETS) >= {"tiny", "small", "medium", "cpu-nano", "cpu-micro", "cpu-mini"}
    denoiser = randomise(Denoiser(7, 12, PRESETS["cpu-nano"], time=LogLinear().sigma))
    ids, t = ids_like(2, 12), torch.rand(2)
    twin = copy.deepcopy(denoiser)
    restored = Denoiser(7, 12, PRESETS["cpu-nano"], time=LogLinear().sigma).eval()
    restored.load_state_dict(denoiser.state_dict())
    with torch.no_grad():
        assert torch.equal(twin(ids, t), denoiser(ids, t))
        assert torch.equal(restored(ids, t), denoiser(ids, t))


@pytest.mark.parametrize("architecture", [SMALL, GRID, replace(SMALL, given_embedding=True, soft_cap=30.0)])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_no_graph_breaks(architecture: Architecture, autocast: torch.dtype | None) -> None:
    torch.compiler.reset()
    denoiser = randomise(Denoiser(7, 16, architecture, time=LogLinear().sigma, autocast=autocast))
    compiled = torch.compile(denoiser, backend="eager", fullgraph=True)
    ids, t = ids_like(2, 16), torch.tensor([0.1, 0.8])
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, t), denoiser(ids, t), atol=1e-6, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_compiled_and_eager_agree() -> None:
    torch.compiler.reset()
    denoiser = randomise(Denoiser(7, 16, replace(SMALL, depth=1), time=LogLinear().sigma)).train()
    compiled = torch.compile(denoiser, fullgraph=True)
    ids, t = ids_like(2, 16), torch.tensor([0.1, 0.8])
    gradients = []
    for network in (denoiser, compiled):
        denoiser.zero_grad()
        logits = network(ids, t)
        logits.logsumexp(-1).sum().backward()
        gradients.append([logits.detach(), *(p.grad.clone() for p in denoiser.parameters())])
    for eager, fused in zip(*gradients):
        torch.testing.assert_close(fused, eager, atol=1e-4, rtol=1e-4)
