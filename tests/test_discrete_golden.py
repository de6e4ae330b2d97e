"""Numbers obtained from published implementations on inputs anyone can type in."""

from __future__ import annotations

import pytest
import torch

from simplax import functional as F
from simplax.evaluate import unigram_entropy
from simplax.samplers.kappa import Fixed, MaxCapped, MaxRescale, Plateau, Remask, Segments
from simplax.samplers.transforms import nucleus as nucleus_transform
from simplax.schedules import LogLinear
from simplax.times import Grid

X = torch.tensor([[0, 2, 4], [1, 3, 5]])
T = torch.tensor([[0.25], [0.8]], dtype=torch.float64)
ALPHA_S = torch.tensor([[0.9], [0.35]], dtype=torch.float64)
SCHEDULE = LogLinear()
ALPHA = SCHEDULE.alpha(T)
RATE = SCHEDULE.rate(T)


def logits(width: int) -> torch.Tensor:
    sizes = (2, 3, width)
    batch, place, value = torch.meshgrid(
        *(torch.arange(n, dtype=torch.float64) for n in sizes), indexing="ij"
    )
    return 2 * torch.sin(1 + 7 * batch + 3 * place + 2 * value)


def close(actual: torch.Tensor, expected: object, tolerance: float = 1e-8) -> None:
    torch.testing.assert_close(
        actual.double(), torch.tensor(expected, dtype=torch.float64), rtol=tolerance, atol=tolerance
    )


def test_schedule() -> None:
    close(SCHEDULE.sigma(T).flatten(), [0.28734879, 1.60544589])
    close(RATE.flatten(), [1.33155615, 4.97509960])
    close((-SCHEDULE.derivative(T) / (1 - ALPHA)).flatten(), [4.0, 1.25])


def test_uniform_density() -> None:
    z = torch.tensor([[0, 3, 4], [2, 3, 0]])
    x_hat = logits(6).softmax(-1)
    close(
        F.uniform_rate(X, x_hat, z, ALPHA, RATE),
        [[0.24805737, 2.53397621, 0.42955607], [0.89786931, 1.73659209, 1.65638410]],
    )
    close(
        F.uniform_rate(X, x_hat, z, 1 - T, 1 / (1 - T)),
        [[0.24834220, 2.53295829, 0.43005296], [0.89464906, 1.73551115, 1.65077943]],
    )


def test_masked_density_and_posterior() -> None:
    z = torch.tensor([[6, 2, 6], [6, 6, 5]])
    x_hat = F.subs_log_probs(logits(7), z, 6).exp()
    close(
        F.masked_rate(X, x_hat, z, ALPHA, RATE, 6),
        [[3.52519494, 0, 4.82670280], [4.82177809, 5.60480561, 0]],
    )
    expected = [0.24838088, 0.06120699, 0.00678133, 0.17174221, 0.10524157, 0.00624662, 0.40040040]
    close(F.absorbing_posterior(x_hat, z, ALPHA_S, ALPHA, 6)[0, 0], expected)
    # the psi family at kappa = 1 with a one-hot pi is the same law
    mask = torch.eye(7, dtype=torch.float64)[6]
    close(F.psi_posterior(x_hat, z, ALPHA_S, ALPHA, 1.0, mask)[0, 0], expected)


def test_uniform_and_psi_posteriors() -> None:
    z = torch.tensor([[0, 3, 4], [2, 3, 0]])
    x_hat = logits(6).softmax(-1)
    posterior = F.reverse_posterior(x_hat, z, ALPHA_S, ALPHA)
    close(posterior[0, 0], [0.95195840, 0.00854095, 0.00211248, 0.02159677, 0.01374207, 0.00204933])
    close(posterior[1, 2], [0.77334348, 0.03777387, 0.03536560, 0.07781743, 0.04075406, 0.03494556])
    close(F.psi_posterior(x_hat, z, ALPHA_S, ALPHA, 1.0), posterior.tolist())
    q_0 = F.psi_posterior(x_hat, z, 1.0, ALPHA, 0.0)
    close(q_0[0, 0], [0.93081373, 0.01205711, 0.00133585, 0.03383135, 0.02073144, 0.00123052])
    psi = F.psi_posterior(x_hat, z, ALPHA_S, ALPHA, 0.7)
    close(psi[0, 0], [0.92269059, 0.01423408, 0.00683942, 0.02925220, 0.02021694, 0.00676677])


def test_nucleus() -> None:
    p = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05], dtype=torch.float64)
    shuffled = torch.tensor([3, 0, 4, 2, 1])
    for top_p, kept in {
        0.8: [0.588235, 0.235294, 0.176471, 0, 0],
        0.5: [0.714286, 0.285714, 0, 0, 0],
    }.items():
        close(F.nucleus(p, top_p), kept, 1e-6)
        close(F.nucleus(p[shuffled], top_p), torch.tensor(kept)[shuffled].tolist(), 1e-6)
    # the transform of logits agrees with the function on probabilities away from ties
    transformed = nucleus_transform(0.8)(p.log()).softmax(-1)
    close(transformed, F.nucleus(p, 0.8).tolist(), 1e-12)
    assert torch.equal(F.nucleus(p, 1.0), p / p.sum())
    with pytest.raises(ValueError, match="top_p"):
        F.nucleus(p, 0.0)


def kappas(rule: object, num_steps: int, grid: object = Grid(end=1e-5)) -> torch.Tensor:
    return rule(grid(num_steps), SCHEDULE, num_steps)  # type: ignore[operator]


def test_kappa_schedules() -> None:
    close(kappas(Segments(middle=Fixed(0.9)), 10), [1, 1, *[0.9] * 7, 1, 1], 1e-12)
    close(kappas(MaxCapped(0.01), 8), [0.9886, 0.9867, 0.9840, 0.9800, 0.9733, 0.9600, 0.9199, 0, 1], 5e-5)
    published = [0.9971, 0.9967, 0.9960, 0.9950, 0.9933, 0.9900, 0.9800, 0.9429, 1]
    close(kappas(MaxRescale(0.05, cap_too=True), 8), published, 5e-5)
    # ReMDM's own rule has no second cap: sigma_r = eta where the largest chance is above one
    close(
        kappas(MaxRescale(0.05), 8)[:4], [1 - 0.05 / (0.999 * t) for t in (7 / 8, 6 / 8, 5 / 8, 4 / 8)], 1e-4
    )


def test_loop_profile() -> None:
    plateau = Plateau(level=0.1, high_fraction=0.45, middle_fraction=0.5)
    times = plateau(20)
    assert len(times) == 21
    close(times[:9], torch.linspace(1, 0.1, 9, dtype=torch.float64).tolist(), 1e-12)
    close(times[9:], [*[0.1] * 10, 0.1, 1e-5], 1e-12)
    loop = Segments(middle=Remask(0.01), high_fraction=0.45, middle_fraction=0.5)
    close(kappas(loop, 20, plateau), [*[1.0] * 9, *[0.8999] * 9, 1, 1, 1], 5e-5)


def test_kappa_at_time_zero_is_defined() -> None:
    for rule in (Remask(0.01), MaxCapped(0.01), MaxRescale(0.05)):
        assert torch.isfinite(kappas(rule, 4, Grid())).all()


TABLES = {
    50257: """
        .945474 .873582 .764372 .629589 .488839 .360126 .254034 .173298 .115436 .075739 .049318
        -.527899 -.914124 -1.249312 -1.411900 -1.372090 -1.184531 -.933262 -.686113 -.479315 -.322932 -.212359
    """,
    12: """
        .999828 .999297 .997706 .993809 .985787 .971538 .949206 .917714 .877071 .828365 .773479
        -.002636 -.009059 -.024838 -.056174 -.107861 -.180308 -.268186 -.361647 -.449342 -.521570 -.572274
    """,
}


@pytest.mark.parametrize("size", TABLES)
def test_duo_alpha_table(size: int) -> None:
    alpha, slope = ([float(x) for x in row.split()] for row in TABLES[size].strip().splitlines())
    gamma = torch.linspace(-3.55, -1.85, 11, dtype=torch.float64)
    close(F.duo_alpha(gamma, size), alpha, 6e-7)
    close(1.7 * F.duo_alpha_derivative(gamma, size), slope, 6e-7)


def test_duo_alpha_reference_points() -> None:
    gamma = torch.tensor([-5, -4, -3.5, -3, -2.5, -2, -1.75, -1], dtype=torch.float64)
    expected = [1.0, 0.99869399, 0.92834, 0.59624, 0.23797, 0.07203, 0.03828, 0.00619]
    close(F.duo_alpha(gamma, 50257), expected, 2e-5)


def test_unigram_entropy() -> None:
    ids = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3], [5, 5, 5, 5, 5, 5, 5, 7]])
    second = -(7 / 8 * torch.log(torch.tensor(7 / 8)) + 1 / 8 * torch.log(torch.tensor(1 / 8)))
    assert unigram_entropy(ids[:1]) == pytest.approx(1.3862943611)
    assert unigram_entropy(ids) == pytest.approx(0.5 * (1.3862943611 + float(second)))
    assert unigram_entropy(torch.arange(1024)[None]) == pytest.approx(6.931471806)
    with pytest.raises(ValueError, match="ids"):
        unigram_entropy(torch.rand(2, 3))
