"""The trunk against golden numbers and against a second implementation that shares no code with it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from simplax.nn import Architecture, Denoiser
from simplax.nn.transformer import sigma_features

SMALL = Architecture(width=16, depth=2, heads=2, cond_dim=8)


def identity(t: Tensor) -> Tensor:
    return t


def randomise(denoiser: Denoiser, seed: int = 0, scale: float = 0.3) -> Denoiser:
    """Weights far from the neutral initialisation, so that every path of the network matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return denoiser.eval()


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def erf_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def complex_rotation(x: Tensor, sign: float = 1.0) -> Tensor:
    """Rows of x (l, dim) are complex numbers x_j + i x_{j + dim/2}, multiplied by exp(i position frequency_j)."""
    length, dim = x.shape
    half = dim // 2
    frequency = torch.tensor([10000.0 ** (-2 * j / dim) for j in range(half)], dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.exp(1j * sign * angle)
    return torch.cat([turned.real, turned.imag], -1)


def interleaved_rotation(x: Tensor) -> Tensor:
    """The other common layout, in which neighbours are paired: what the network must not do."""
    half_split = complex_rotation(torch.cat([x[:, 0::2], x[:, 1::2]], -1))
    return torch.stack(half_split.chunk(2, -1), -1).flatten(1)


class Reference:
    """One sequence at a time, one head at a time, in float64, straight from the published description."""

    def __init__(self, denoiser: Denoiser, **changes: object) -> None:
        self.p = {name: value.detach().double() for name, value in denoiser.named_parameters()}
        self.a, self.causal = denoiser.architecture, denoiser.causal
        self.gelu = changes.pop("gelu", tanh_gelu)
        self.eps = changes.pop("eps", 1e-5)
        self.rotation = changes.pop("rotation", complex_rotation)
        self.scale = changes.pop("scale", self.a.head_dim**-0.5)
        assert not changes

    def norm(self, h: Tensor, name: str) -> Tensor:
        centred = h - h.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.p[f"{name}.weight"]
        )

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.p[f"{name}.weight"].T + self.p.get(f"{name}.bias", torch.zeros(()).double())

    def modulation(self, cond: Tensor | None, name: str, count: int) -> tuple[Tensor, ...]:
        """Shifts and scales of zero, gates of one, when there is no adaptive layer norm."""
        if cond is None:
            return tuple(torch.tensor(float(i % 3 == 2)).double() for i in range(count))
        return self.linear(cond, f"{name}.adaLN_modulation").chunk(count)

    def cond(self, sigma: float) -> Tensor | None:
        if "sigma_map.mlp.0.weight" not in self.p:
            return None
        frequency = [math.exp(-math.log(10000) * i / 128) for i in range(128)]
        features = [math.cos(sigma * f) for f in frequency] + [math.sin(sigma * f) for f in frequency]
        hidden = self.linear(torch.tensor(features, dtype=torch.float64), "sigma_map.mlp.0")
        out = self.linear(hidden * hidden.sigmoid(), "sigma_map.mlp.2")
        return out * out.sigmoid()

    def attention(self, u: Tensor, name: str) -> Tensor:
        q, k, v = self.linear(u, f"{name}.attn_qkv").chunk(3, -1)
        heads = []
        for head in range(self.a.heads):
            part = slice(head * self.a.head_dim, (head + 1) * self.a.head_dim)
            score = self.rotation(q[:, part]) @ self.rotation(k[:, part]).T * self.scale
            if self.causal:
                score = score.masked_fill(torch.ones_like(score).triu(1).bool(), -math.inf)
            heads.append(torch.softmax(score, -1) @ v[:, part])
        return self.linear(torch.cat(heads, -1), f"{name}.attn_out")

    def logits(self, ids: Tensor, sigma: float) -> Tensor:
        h, cond = self.p["vocab_embed.embedding"][ids], self.cond(sigma)
        for i in range(self.a.depth):
            name = f"blocks.{i}"
            shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(cond, name, 6)
            u = self.norm(h, f"{name}.norm1") * (1 + scale_a) + shift_a
            h = h + gate_a * self.attention(u, name)
            u = self.norm(h, f"{name}.norm2") * (1 + scale_m) + shift_m
            h = h + gate_m * self.linear(self.gelu(self.linear(u, f"{name}.mlp.0")), f"{name}.mlp.2")
        shift, scale = self.modulation(cond, "output_layer", 2)
        return self.linear(
            self.norm(h, "output_layer.norm_final") * (1 + scale) + shift, "output_layer.linear"
        )

    def batch(self, ids: Tensor, sigma: Tensor) -> Tensor:
        return torch.stack([self.logits(row, float(level)) for row, level in zip(ids, sigma)])


def sharp_case(adaln: bool, causal: bool) -> tuple[Denoiser, Tensor, Tensor]:
    """Embeddings so small that eps matters, projections so large that phases, scores and activations do."""
    time = identity if adaln else None
    denoiser = randomise(Denoiser(7, 12, SMALL, time=time, adaln=adaln, causal=causal), seed=1)
    with torch.no_grad():
        denoiser.vocab_embed.embedding.mul_(0.01)
        for block in denoiser.blocks:
            block.attn_qkv.weight.mul_(3.0)
            block.norm1.weight.add_(1.0)
            block.norm2.weight.add_(1.0)
            block.mlp[2].weight.mul_(3.0)
    ids = torch.randint(7, (2, 12), generator=torch.Generator().manual_seed(2))
    return denoiser, ids, torch.tensor([0.3, 4.0])


def test_golden_logits() -> None:
    denoiser = Denoiser(7, 5, SMALL, time=identity).eval()
    with torch.no_grad():
        for i, parameter in enumerate(denoiser.parameters()):
            flat = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((0.2 * torch.sin(0.37 * flat + i)).view_as(parameter))
        logits = denoiser(torch.tensor([[0, 1, 2, 3, 4], [6, 5, 4, 3, 2]]), torch.tensor([0.0, 1.5]))
    first = [-0.20121837, -0.24127917, -0.25063065, -0.22778243, -0.17537756, -0.09989337, -0.01084518]
    last = [-0.19408673, -0.23352338, -0.24326256, -0.22176328, -0.17149256, -0.09864940, -0.01240453]
    torch.testing.assert_close(logits[0, 0], torch.tensor(first), atol=3e-7, rtol=0)
    torch.testing.assert_close(logits[1, 4], torch.tensor(last), atol=3e-7, rtol=0)
    assert logits.sum().item() == pytest.approx(-11.186447, abs=5e-6)


def test_golden_sigma_features() -> None:
    golden = [0.87758255, 0.99875027, 0.99998748, 0.99999988, 0.47942555, 0.04997917, 0.00499998, 0.0005]
    features = sigma_features(torch.tensor([0.5]), width=8)
    torch.testing.assert_close(features, torch.tensor([golden]), atol=1e-7, rtol=0)


@pytest.mark.parametrize("adaln", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_agrees_with_the_float64_reference(adaln: bool, causal: bool) -> None:
    denoiser, ids, sigma = sharp_case(adaln, causal)
    with torch.no_grad():
        logits = denoiser(ids, sigma)
    expected = Reference(denoiser).batch(ids, sigma)
    assert expected.abs().max() > 1.0
    torch.testing.assert_close(logits.double(), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    "change",
    [
        {"gelu": erf_gelu},
        {"eps": 1e-6},
        {"eps": 1e-12},
        {"scale": 1.0 / 8},  # that of the published head width of 64, wrong for other widths
        {"rotation": lambda x: x},
        {"rotation": lambda x: complex_rotation(x, -1.0)},
        {"rotation": interleaved_rotation},
        {"rotation": lambda x: torch.cat([complex_rotation(x)[1:], x[:1]])},
    ],
    ids=["erf", "eps 1e-6", "no eps", "scale", "no rotary", "phase sign", "interleaved", "shuffled phase"],
)
def test_the_reference_is_sharp(change: dict[str, object]) -> None:
    """A wrong detail moves the reference by at least ten times the tolerance of the comparison above.

    The sign of the phase is no exception: reversing it reverses the sequence as attention sees it.
    """
    denoiser, ids, sigma = sharp_case(adaln=True, causal=False)
    right = Reference(denoiser).batch(ids, sigma)
    wrong = Reference(denoiser, **change).batch(ids, sigma)
    assert (right - wrong).abs().max() > 2e-4
