"""Parts of the trunk one by one: rotary phase, layer norm, initialisation, names, sizes, precision."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.nn import PRESETS, Architecture, Denoiser
from simplax.nn.attention import Rotary, rotate
from simplax.nn.transformer import LayerNorm, TanhGELU, attention
from simplax.schedules import Linear, LogLinear
from test_nn_reference import SMALL, complex_rotation, identity, randomise


def rotated(x: torch.Tensor, rotary: Rotary, start: int = 0) -> torch.Tensor:
    cos, sin = rotary(start, start + x.shape[0])
    return rotate(x[None, :, None], cos, sin)[0, :, 0]


def test_rotation_is_a_complex_product() -> None:
    x = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        rotated(x, Rotary(64, 50)).double(), complex_rotation(x.double()), atol=2e-5, rtol=0
    )


def test_first_and_last_frequency() -> None:
    """The first plane turns by one radian per position, the last by 10000^(-(d - 2)/d)."""
    x = torch.zeros(2, 8)
    x[:, 0] = x[:, 3] = 1.0
    y = rotated(x, Rotary(8, 2))[1]
    slow = 10000.0 ** (-6 / 8)
    expected = [math.cos(1), 0, 0, math.cos(slow), math.sin(1), 0, 0, math.sin(slow)]
    torch.testing.assert_close(y, torch.tensor(expected), atol=1e-6, rtol=0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20), st.integers(0, 2**31))
def test_scores_depend_on_relative_position_only(i: int, j: int, shift: int, seed: int) -> None:
    rotary = Rotary(16, 61)
    q, k = torch.randn(2, 1, 16, generator=torch.Generator().manual_seed(seed)).unbind(0)
    here = (rotated(q, rotary, i) * rotated(k, rotary, j)).sum()
    there = (rotated(q, rotary, i + shift) * rotated(k, rotary, j + shift)).sum()
    torch.testing.assert_close(here, there, atol=1e-4, rtol=0)


def test_layer_norm_eps_and_precision() -> None:
    norm = LayerNorm(4)
    h = 1e-3 * torch.tensor([[1.0, -1.0, 1.0, -1.0]])
    expected = h / math.sqrt(1e-6 + 1e-5)
    torch.testing.assert_close(norm(h), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert norm(h.bfloat16()).dtype == torch.float32


def test_initialisation_is_the_published_one() -> None:
    torch.manual_seed(0)
    denoiser = Denoiser(50, 8, Architecture(width=64, depth=2, heads=2), time=LogLinear().sigma)
    bound = 1 / math.sqrt(64)
    embedding = denoiser.vocab_embed.embedding
    assert 0.98 * bound < embedding.abs().max() <= bound
    for name, parameter in denoiser.named_parameters():
        if "adaLN" in name or "output_layer.linear" in name:
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert parameter.std() > 0, name


@pytest.mark.parametrize("options", [{}, {"time": LogLinear().sigma}, {"adaln": False, "causal": True}])
def test_logits_are_zero_at_initialisation(options: dict) -> None:
    logits = Denoiser(7, 12, SMALL, **options)(torch.randint(7, (3, 12)), torch.rand(3))
    assert logits.shape == (3, 12, 7)
    assert not logits.any()


def test_blocks_are_the_identity_at_initialisation() -> None:
    """Gates of zero: the features are the normalised embedding."""
    denoiser = Denoiser(7, 12, SMALL, time=LogLinear().sigma)
    ids = torch.randint(7, (3, 12))
    expected = torch.nn.functional.layer_norm(denoiser.vocab_embed.embedding[ids], (16,))
    torch.testing.assert_close(denoiser.features(ids, torch.rand(3)), expected)


@pytest.mark.parametrize(
    ("preset", "vocab_size", "adaln", "count"),
    [
        ("small", 50258, True, 169_627_218),
        ("small", 50257, True, 169_625_681),
        ("small", 50258, False, 162_246_482),
        ("medium", 50258, True, 424_477_010),
        ("tiny", 12, True, 28_559_116),
        ("tiny", 12, False, 25_207_308),
    ],
)
def test_parameter_counts(preset: str, vocab_size: int, adaln: bool, count: int) -> None:
    with torch.device("meta"):
        denoiser = Denoiser(vocab_size, 128, PRESETS[preset], adaln=adaln)
    assert sum(parameter.numel() for parameter in denoiser.parameters()) == count


def test_names_and_order_are_the_published_ones() -> None:
    with torch.device("meta"):
        denoiser = Denoiser(50258, 1024, PRESETS["small"])
    block = {
        "norm1.weight": (768,),
        "attn_qkv.weight": (2304, 768),
        "attn_out.weight": (768, 768),
        "norm2.weight": (768,),
        "mlp.0.weight": (3072, 768),
        "mlp.0.bias": (3072,),
        "mlp.2.weight": (768, 3072),
        "mlp.2.bias": (768,),
        "adaLN_modulation.weight": (4608, 128),
        "adaLN_modulation.bias": (4608,),
    }
    expected = {
        "vocab_embed.embedding": (50258, 768),
        "sigma_map.mlp.0.weight": (128, 256),
        "sigma_map.mlp.0.bias": (128,),
        "sigma_map.mlp.2.weight": (128, 128),
        "sigma_map.mlp.2.bias": (128,),
        **{f"blocks.{i}.{name}": shape for i in range(12) for name, shape in block.items()},
        "output_layer.norm_final.weight": (768,),
        "output_layer.linear.weight": (50258, 768),
        "output_layer.linear.bias": (50258,),
        "output_layer.adaLN_modulation.weight": (1536, 128),
        "output_layer.adaLN_modulation.bias": (1536,),
    }
    actual = [(name, tuple(parameter.shape)) for name, parameter in denoiser.named_parameters()]
    assert actual == list(expected.items())
    assert denoiser.state_dict().keys() == expected.keys() | {"rotary_emb.inv_freq"}
    assert denoiser.state_dict()["rotary_emb.inv_freq"].shape == (32,)


def test_options_of_ours_come_after_the_published_parameters() -> None:
    plain = Denoiser(5, 16, SMALL)
    options = Architecture(
        width=16,
        depth=2,
        heads=2,
        cond_dim=8,
        given_embedding=True,
        carry="probabilities",
        relations="sudoku4",
    )
    published = [name for name, _ in plain.named_parameters()]
    assert [name for name, _ in Denoiser(5, 16, options).named_parameters()][: len(published)] == published


def test_autocast_stays_inside() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, time=identity))
    ids, t = torch.randint(7, (2, 12), generator=torch.Generator().manual_seed(0)), torch.tensor([0.1, 0.9])
    dtypes: dict[str, torch.dtype] = {}
    denoiser.blocks[0].register_forward_hook(lambda m, i, o: dtypes.update(residual=o.dtype))
    denoiser.blocks[0].attn_qkv.register_forward_hook(lambda m, i, o: dtypes.update(qkv=o.dtype))
    denoiser.blocks[0].norm1.register_forward_hook(lambda m, i, o: dtypes.update(norm=o.dtype))
    denoiser.sigma_map.mlp.register_forward_hook(lambda m, i, o: dtypes.update(sigma=o.dtype))
    with torch.no_grad():
        exact = denoiser(ids, t)
        assert set(dtypes.values()) == {torch.float32}
        denoiser.autocast = torch.bfloat16
        rounded = denoiser(ids, t)
    assert dtypes.pop("qkv") == torch.bfloat16
    assert set(dtypes.values()) == {torch.float32}
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 0.02 * exact.abs().max()


def test_an_outer_autocast_changes_nothing() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, time=identity))
    ids, t = torch.randint(7, (2, 12)), torch.tensor([0.1, 0.9])
    with torch.no_grad():
        alone = denoiser(ids, t)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(denoiser(ids, t), alone)


def test_bfloat16_training_gives_float32_gradients() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, time=identity, autocast=torch.bfloat16)).train()
    denoiser(torch.randint(7, (2, 12)), torch.rand(2)).logsumexp(-1).sum().backward()
    for name, parameter in denoiser.named_parameters():
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32, name
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_time_is_seen_through_the_schedule() -> None:
    schedule = LogLinear()
    by_time = randomise(Denoiser(7, 12, SMALL, time=schedule.sigma))
    by_sigma = randomise(Denoiser(7, 12, SMALL, time=identity))
    blind = randomise(Denoiser(7, 12, SMALL))
    ids, t = torch.randint(7, (2, 12)), torch.tensor([0.2, 0.9])
    with torch.no_grad():
        assert torch.equal(by_time(ids, t), by_sigma(ids, schedule.sigma(t)))
        assert not torch.allclose(by_time(ids, t), by_time(ids, 0.5 * t))
        torch.testing.assert_close(blind(ids, t), by_sigma(ids, torch.zeros(2)))
        assert torch.equal(blind(ids, t), blind(ids))


def test_an_infinite_noise_level_is_finite_inside() -> None:
    denoiser = randomise(Denoiser(7, 12, SMALL, time=Linear().sigma))
    assert denoiser(torch.randint(7, (2, 12)), torch.ones(2)).isfinite().all()


def test_dropout_only_on_residual_branches() -> None:
    """With both branches dropped whole, what is left is the embedding: no dropout touches the stream itself."""
    denoiser = randomise(Denoiser(7, 12, SMALL, time=identity)).train()
    for block in denoiser.blocks:
        block.dropout = 1.0
    undropped = randomise(Denoiser(7, 12, SMALL, time=identity))
    with torch.no_grad():
        for block in undropped.blocks:
            block.attn_out.weight.zero_()
            block.mlp[2].weight.zero_()
            block.mlp[2].bias.zero_()
        ids, t = torch.randint(7, (2, 12)), torch.rand(2)
        assert torch.equal(denoiser(ids, t), undropped(ids, t))


@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "additive"])
def test_attention_in_bfloat16_is_that_of_float64(kind: str) -> None:
    """On a CPU it is written out as matrix products: the values and gradients are those of the definition."""
    generator = torch.Generator().manual_seed(3)
    q, k, v, g = (torch.randn(2, 3, 7, 8, generator=generator).bfloat16() for _ in range(4))
    seen = torch.rand(2, 1, 7, 7, generator=generator) < 0.6
    seen |= torch.eye(7, dtype=torch.bool)
    masks = {
        "none": None,
        "causal": None,
        "boolean": seen,
        "additive": torch.randn(1, 3, 7, 7, generator=generator),
    }
    mask, causal = masks[kind], kind == "causal"

    def gradients(dtype: torch.dtype) -> list[torch.Tensor]:
        inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        fitted = mask if mask is None or mask.dtype == torch.bool else mask.bfloat16().to(dtype)
        out = attention(*inputs, fitted, causal)
        assert out.dtype == dtype
        return [out, *torch.autograd.grad(out, inputs, g.to(dtype))]

    for found, exact in zip(gradients(torch.bfloat16), gradients(torch.float64)):
        torch.testing.assert_close(found.double(), exact, rtol=0.03, atol=0.03)


def test_compiled_gelu_is_gelu_by_tanh() -> None:
    h = torch.linspace(-12, 12, 2001, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(TanhGELU(), fullgraph=True, backend="aot_eager")
    ours, theirs = compiled(h), torch.nn.functional.gelu(h, approximate="tanh")
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    of_ours, of_theirs = (torch.autograd.grad(value.sum(), h)[0] for value in (ours, theirs))
    torch.testing.assert_close(of_ours, of_theirs, rtol=0, atol=1e-13)


def test_many_heads_turn_as_one_does() -> None:
    cos, sin = Rotary(8, 5)(0, 5)
    x = torch.randn(2, 5, 3, 8, requires_grad=True)
    apart = torch.cat([rotate(head, cos, sin) for head in x.split(1, 2)], 2)
    together = rotate(x, cos, sin)
    assert torch.equal(together, apart)
    weight = torch.randn(2, 5, 3, 8)
    of_apart, of_together = (torch.autograd.grad((weight * y).sum(), x)[0] for y in (apart, together))
    assert torch.equal(of_apart, of_together)
