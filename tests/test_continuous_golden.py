"""Numbers of the published implementations of CANDI, FLM, LangFlow and S-FLM, on inputs anyone can type in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from simplax import functional as F
from simplax.functional._splines import pchip, pchip_derivative
from simplax.functional.continuous import warped_times
from simplax.methods import CANDI, FLM, SFLM, LangFlow, SFLMAdaptive
from simplax.nn import PRESETS, Architecture
from simplax.nn.langflow import EmbeddingDenoiser
from simplax.nn.sflm import AlphaTable
from simplax.processes.embedding import ddim_step
from simplax.processes.onehot import euler_step
from simplax.processes.prediction import Prediction
from simplax.processes.sphere import mean_tangent, step_fraction
from simplax.processes.vectors import unit


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual: Tensor, expected: object, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual.double(), tensor(expected), rtol=0, atol=tolerance)


ACCURACIES = tensor([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
FLM_TABLE = {
    2: [0.0174163, 0.1508960, 0.3106415, 0.4881959, 0.6193144, 0.6993543, 0.7846115],
    12: [0.0609691, 0.3367679, 0.5038825, 0.6292284, 0.7090062, 0.7578017, 0.8134861],
    50257: [0.6464591, 0.7437696, 0.7792376, 0.8087410, 0.8313665, 0.8476521, 0.8695003],
    50258: [0.6464597, 0.7437699, 0.7792378, 0.8087412, 0.8313666, 0.8476522, 0.8695004],
}


@pytest.mark.parametrize("size", FLM_TABLE)
def test_flm_clock(size: int) -> None:
    close(F.flm_gamma(ACCURACIES, size), FLM_TABLE[size], 6e-8)
    close(F.flm_gamma(tensor([0.0, 1.0]), size), [0.0, 1.0])
    close(FLM().build(size, 2, PRESETS["cpu-nano"]).gamma(1 - ACCURACIES), FLM_TABLE[size], 6e-8)


def test_candi_sigmas() -> None:
    hidden = tensor([0.0, 0.25, 0.5, 0.75, 0.999, 1.0])
    close(
        F.candi_sigma(1 - hidden, 50258), [0.303939, 0.479140, 0.627772, 0.805470, 1.047212, 1.048383], 6e-7
    )
    close(F.candi_sigma(1 - hidden[[0, 2, 4, 5]], 12), [0.308287, 0.659501, 1.168053, 1.169574], 6e-7)
    close(F.candi_sigma(1 - hidden[[0, 2, 5]], 50258, (0.05, 0.25)), [0.429890, 0.682260, 1.048383], 6e-7)
    # beyond the table the last line goes on
    close(F.candi_sigma(0.0, 12, (0.01, 0.4)), 4.375, 1e-3)
    network = CANDI().build(12, 2, PRESETS["cpu-nano"])
    close(network.sigma(tensor([0.0, 0.5 / 0.999, 1.0])), [0.308287, 0.659501, 1.168053], 6e-7)


def test_langflow_noise_levels() -> None:
    close(F.langflow_gamma(tensor([0.0, 1.0])), [2.6412, 14.5320], 5e-5)
    close(F.langflow_gamma(tensor([0.5, 0.9, 0.1])), [5.0353, 6.6403, 4.0124], 5e-5)
    grid = LangFlow().sampler().grid(5)
    close(F.langflow_gamma(grid)[1:], [5.7845, 5.0353, 4.4447, 2.6412], 1.1e-4)
    # the released code has 14.5208 at the first quantile, which is torch's Gumbel in float32; the value is 14.5320
    published = torch.distributions.Gumbel(4.723, 0.852).icdf(torch.tensor(1 - 1e-5))
    close(published, 14.5208, 5e-5)
    close(F.langflow_gamma(grid)[0], 14.5320, 5e-5)


def test_langflow_skip() -> None:
    gamma = tensor([2.0, 5.0, 9.0])
    close(F.langflow_skip(gamma), [0.3920, 0.0824, 0.0111], 5e-5)
    close(F.langflow_skip(gamma), (torch.sigmoid(-gamma).sqrt() / torch.sigmoid(gamma)).tolist(), 1e-15)


def small_langflow(rows: list[list[float]]) -> EmbeddingDenoiser:
    architecture = Architecture(width=4, depth=1, heads=1)
    network = LangFlow().build(len(rows), 1, architecture)
    assert isinstance(network, EmbeddingDenoiser)
    with torch.no_grad():
        network.table.copy_(tensor(rows))
        network.noise.loc.fill_(4.723)
    return network


def test_langflow_network() -> None:
    close(small_langflow([[3, 4, 0, 0], [0, 1, 0, 0]]).rows()[0], [1.2, 1.6, 0, 0], 1e-6)
    network = small_langflow([[1, 0, 0, 0], [0, 2, 0, 0], [1, 1, 1, 1]])
    t = torch.exp(-torch.exp(-(tensor([5.0]) - 4.723) / 0.852))
    logits = network(torch.tensor([[[0.5, -0.25, 1, 0]]]), t)[0, 0]
    close(logits, [0.0824, -0.0412, 0.1030], 5e-5)


def test_langflow_step() -> None:
    moved = ddim_step(tensor([1.0, -2.0]), tensor([0.5, 0.25]), tensor(6.0), tensor(5.0))
    close(moved, [1.0140, -1.9877], 5e-5)


ROWS = unit(tensor([[1, 2, 3, 4], [-1, 0.5, 0, 2], [0.3, -0.7, 1.1, -0.2]]))
Z = unit(tensor([[0.5, -1, 0.25, 2], [1, 1, 1, 1]]))
P = tensor([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]])


def test_sphere() -> None:
    close(
        F.slerp(ROWS[[0, 2]], Z, 0.3),
        [
            [0.2139191748, 0.1270643325, 0.4537737637, 0.8556766992],
            [0.3914176154, -0.2288070409, 0.8875973404, 0.0813052873],
        ],
        1e-10,
    )
    velocity = F.sphere_velocity(Z, ROWS, P)
    close(
        velocity,
        [
            [-0.2444836708, 0.2451457582, 0.4022830102, 0.1334084205],
            [-0.2395929184, -0.2305620796, 0.2475259267, 0.2226290713],
        ],
        1e-10,
    )
    close(mean_tangent(Z[None], ROWS, Prediction(P.log()[None]))[0], velocity.tolist(), 1e-10)
    close(mean_tangent(Z[None], ROWS.float(), Prediction(P.log()[None]))[0], velocity.tolist(), 1e-6)
    fraction = step_fraction(tensor(0.02), tensor(0.05))
    close(fraction, 0.0306122449, 1e-10)
    close(
        F.sphere_exp(Z, fraction * velocity),
        [
            [0.2094161725, -0.4262959219, 0.1207642182, 0.8716838058],
            [0.4926139092, 0.4928903539, 0.5075251950, 0.5067630727],
        ],
        1e-10,
    )


def test_flm_step() -> None:
    z = tensor([[0.2, -0.4, 1.0], [0, 0, 0]])
    close(
        euler_step(z, P, tensor(0.4), tensor(0.5)),
        [[0.2, -0.2500025, 0.8833352777], [0.1166647223, 0.0166663889, 0.0333327778]],
        1e-10,
    )


def test_posteriors_of_the_discrete_baselines() -> None:
    close(
        F.reverse_posterior(P, torch.tensor([1, 0]), 0.6, 0.3),
        [[0.1101449275, 0.7536231884, 0.1362318841], [0.8320802005, 0.0726817043, 0.0952380952]],
        1e-10,
    )
    with_mask = torch.nn.functional.pad(P, (0, 1))
    close(
        F.absorbing_posterior(with_mask, torch.tensor([3, 0]), 0.6, 0.3, 3),
        [[0.0857142857, 0.2142857143, 0.1285714286, 0.5714285714], [1, 0, 0, 0]],
        1e-10,
    )


def test_truncation() -> None:
    assert F.truncation_alpha(12, 512) == pytest.approx(0.09273, abs=5e-6)
    assert F.truncation_alpha(50258, 768) == pytest.approx(0.12151, abs=5e-6)
    assert F.truncation_alpha(50258, 4) == 1.0
    table = AlphaTable(0.093)
    close(table(tensor([0, 0.25, 0.5, 0.75, 1])), [0.093, 0.070, 0.047, 0.024, 0.001], 1e-12)
    # the affine map of alpha = 1 - 0.999 t, published in single precision
    scale, offset = 0.09209209204892561, 0.000907907951074386
    t = torch.linspace(0, 1, 7, dtype=torch.float64)
    close(table(t), (scale * (1 - 0.999 * t) + offset).tolist(), 1e-10)
    close(AlphaTable(1.0)(t), (1 - 0.999 * t).tolist(), 1e-12)
    network = SFLM(truncation=0.093).build(12, 2, PRESETS["cpu-nano"])
    close(network.level(tensor([0.0, 1.0])), [2.375, 6.908], 5e-4)


AT = tensor([0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
REFITS = {
    "cube": [0.09309209, 0.05037637, 0.03509283, 0.0200068, 0.00942614, 0.00418379, 0.001],
    "logistic": [0.09309209, 0.04796542, 0.04291416, 0.03784641, 0.03279256, 0.0277586, 0.001],
}


@pytest.mark.parametrize("shape", REFITS)
def test_refits(shape: str) -> None:
    t, grid = (torch.linspace(0, 1, count, dtype=torch.float64) for count in (12_800, 1000))
    loss = t**3 if shape == "cube" else 2.3 * torch.sigmoid((t - 0.6) / 0.05)
    base = AlphaTable(0.093).base
    published = base(warped_times(t, loss, 1000, 20))
    close(pchip(grid, published, AT), REFITS[shape], 2e-8)
    if shape == "cube":  # published in single precision, which a derivative feels
        close(pchip_derivative(grid, published, tensor([0.5])), [-0.04875042], 1e-6)
    # ours keeps times in [0, 1], which moves the first value only
    close(pchip(grid, F.refit_schedule(t, loss, base), AT), [0.093, *REFITS[shape][1:]], 2e-8)


def test_parameter_counts() -> None:
    sizes = {
        FLM(): 28_559_116,
        SFLM(): 28_559_116,
        SFLMAdaptive(): 28_559_116,
        LangFlow(): 29_083_407,
        CANDI(): 28_560_141 - 513,  # without the output for the mask, which nobody reads
    }
    for method, count in sizes.items():
        network = method.build(12, 180, PRESETS["tiny"])
        assert sum(p.numel() for p in network.parameters()) == count, method


def test_call_counts() -> None:
    """Points of the grid: a step between each pair of neighbours, and a last call where the sampler makes one."""
    close(FLM().sampler().grid(4), [1.0, 0.75, 0.5, 0.25])
    close(SFLM().sampler().grid(4), torch.linspace(1, 1e-5, 5, dtype=torch.float64)[:4].tolist(), 1e-12)
    close(CANDI().sampler().grid(4), torch.linspace(0.999, 1e-5, 5, dtype=torch.float64).tolist(), 1e-12)
    close(
        LangFlow().sampler().grid(4), torch.linspace(1 - 1e-5, 1e-5, 4, dtype=torch.float64).tolist(), 1e-12
    )
