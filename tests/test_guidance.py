"""Guided steps against enumeration: two tokens of three categories, two labels, every state listed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from failure_budget import accept, chi_square
from pushforward import bayes
from simplax import functional, sample
from simplax.processes.masked import MaskedProcess
from simplax.processes.uniform import UniformProcess
from simplax.samplers import (
    Ancestral,
    ByClassifier,
    ClassifierFree,
    FirstHitting,
    Gibbs,
    MaskedAncestral,
    Psi,
)
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.kappa import Fixed
from simplax.samplers.stopping import Settled
from simplax.schedules import LogLinear
from toy import K, L, law, states

SCHEDULE = LogLinear()
DRAWS = 40_000
STRENGTH = 2.5


class Labelled:
    """A network (z, t, labels) -> logits that is a fixed table: any law of the tokens will do for the algebra."""

    vocab_size = K

    def __init__(self, mask: bool) -> None:
        generator = torch.Generator().manual_seed(3)
        self.size = K + mask
        self.table = torch.randn(3, self.size**L, L, K, generator=generator, dtype=torch.float64)
        self.sequences = 0

    def __call__(self, z: Tensor, t: Tensor, labels: Tensor | None = None) -> Tensor:
        self.sequences += len(z)
        label = torch.full((len(z),), 2) if labels is None else labels[:, 0].nan_to_num(2).long()
        return self.table[label, z[:, 0] * self.size + z[:, 1]] * (1.5 - 0.5 * t.double())[:, None, None]

    def probs(self, t: Tensor, label: int | None) -> Tensor:
        """x_hat at every state, (states, L, K)."""
        z = states(self.size)
        labels = None if label is None else torch.full((len(z), 1), float(label))
        return torch.softmax(self(z, t.expand(len(z)), labels), -1)


def tilted(given: Tensor, free: Tensor, strength: float) -> Tensor:
    """The definition: powers, then a division."""
    product = given**strength * free ** (1 - strength)
    return product / product.sum(-1, keepdim=True)


Step = Callable[[Tensor, Tensor], Tensor]


def product_chain(
    step: Step, start: Tensor, num_steps: int, size: int, hold: tuple[int, int] | None
) -> Tensor:
    """The law of the chain: tokens of a step are independent given the state, laws (states, L, size)."""
    now = start if hold is None else _hold(start, hold, size)
    for t, s in itertools.pairwise(torch.linspace(1.0, 0.0, num_steps + 1, dtype=torch.float64)):
        each = step(t, s)
        forward = torch.einsum("ia,ib->iab", each[:, 0], each[:, 1]).flatten(1)
        now = now @ forward
        if hold is not None:
            now = _hold(now, hold, size)
    return now


def _hold(now: Tensor, hold: tuple[int, int], size: int) -> Tensor:
    position, value = hold
    table = now.reshape(size, size)
    kept = torch.zeros_like(table)
    kept.select(position, value).copy_(table.sum(position))
    return kept.flatten()


def uniform_step(network: Labelled, strength: float) -> Step:
    def step(t: Tensor, s: Tensor) -> Tensor:
        pi = torch.full((K,), 1 / K, dtype=torch.float64)
        alphas = float(SCHEDULE.alpha(s)), float(SCHEDULE.alpha(t))
        here = states()[:, :, None, None].expand(-1, -1, 1, K)
        given, free = (
            bayes(network.probs(t, label), *alphas, pi).gather(2, here).squeeze(2) for label in (1, None)
        )
        return tilted(given, free, strength)

    return step


def masked_step(network: Labelled, strength: float) -> Step:
    """Masks are lifted with the usual chance and filled in from the tilted prediction."""

    def step(t: Tensor, s: Tensor) -> Tensor:
        alpha_t, alpha_s = float(SCHEDULE.alpha(t)), float(SCHEDULE.alpha(s))
        x_hat = tilted(network.probs(t, 1), network.probs(t, None), strength)
        lift = (alpha_s - alpha_t) / (1 - alpha_t)
        from_mask = torch.cat([lift * x_hat, torch.full_like(x_hat[..., :1], 1 - lift)], -1)
        visible = torch.nn.functional.one_hot(states(K + 1), K + 1).double()
        return torch.where((states(K + 1) == K).unsqueeze(-1), from_mask, visible)

    return step


UNIFORM_START = torch.full((K**L,), K**-L, dtype=torch.float64)
MASKED_START = torch.nn.functional.one_hot(torch.tensor(15), 16).double()
CASES: dict[str, tuple[Any, Any, Callable[[Labelled, float], Step], Tensor]] = {
    "uniform": (Ancestral(), UniformProcess, uniform_step, UNIFORM_START),
    "uniform by psi": (Psi(), UniformProcess, uniform_step, UNIFORM_START),
    "masked": (MaskedAncestral(), MaskedProcess, masked_step, MASKED_START),
    "masked by psi": (Psi(), MaskedProcess, masked_step, MASKED_START),
}


def assert_follows(counts: Tensor, expected: Tensor) -> None:
    accept([chi_square(counts.numpy(), expected.numpy())])


def draw(
    network: Any, sampler: Any, process: Any, *, count: int = DRAWS, steps: int = 3, **options: Any
) -> Any:
    options = {"labels": torch.ones(count, 1), "guidance": STRENGTH, "seeds": range(count), **options}
    return sample(
        network,
        (count, L),
        sampler=sampler,
        process=process,
        schedule=SCHEDULE,
        num_steps=steps,
        vocab_size=K,
        **options,
    )


@pytest.mark.parametrize("hold", [None, (0, 2)], ids=["free", "given"])
@pytest.mark.parametrize("case", CASES)
def test_guided_chains_follow_the_enumerated_law(case: str, hold: tuple[int, int] | None) -> None:
    sampler, process, step, start = CASES[case]
    size = K + (process is MaskedProcess)
    network = Labelled(mask=size > K)
    clamped: dict[str, Any] = {}
    if hold is not None:
        mark = torch.zeros(DRAWS, L, dtype=torch.bool)
        mark[:, hold[0]] = True
        clamped = {"tokens": torch.full((DRAWS, L), hold[1]), "given": mark}
    drawn = draw(network, sampler, process, **clamped)
    expected = product_chain(step(network, STRENGTH), start, 3, size, hold)
    assert_follows(law(drawn.tokens, size), expected)
    if hold is not None:
        assert bool((drawn.tokens[:, hold[0]] == hold[1]).all())


def test_guidance_on_the_prediction_is_another_chain_under_uniform_noise() -> None:
    network = Labelled(mask=False)

    def step(t: Tensor, s: Tensor) -> Tensor:
        pi = torch.full((K,), 1 / K, dtype=torch.float64)
        x_hat = tilted(network.probs(t, 1), network.probs(t, None), STRENGTH)
        here = states()[:, :, None, None].expand(-1, -1, 1, K)
        return bayes(x_hat, float(SCHEDULE.alpha(s)), float(SCHEDULE.alpha(t)), pi).gather(2, here).squeeze(2)

    drawn = draw(network, Ancestral(), UniformProcess, guidance=ClassifierFree(STRENGTH, on="prediction"))
    mine = product_chain(step, UNIFORM_START, 3, K, None)
    assert_follows(law(drawn.tokens), mine)
    other = product_chain(uniform_step(network, STRENGTH), UNIFORM_START, 3, K, None)
    assert (mine - other).abs().sum() > 0.02


@pytest.mark.parametrize("case", ["uniform", "masked"])
def test_strengths_zero_and_one_are_the_chains_without_and_with_the_label(case: str) -> None:
    sampler, process, _, _ = CASES[case]
    network = Labelled(mask=process is MaskedProcess)
    without = draw(network, sampler, process, count=200, guidance=None, labels=None)
    with_label = draw(network, sampler, process, count=200, guidance=None)
    for strength, same in ((0.0, without), (1.0, with_label)):
        drawn = draw(network, sampler, process, count=200, guidance=strength)
        assert torch.equal(drawn.tokens, same.tokens)
        assert drawn.nfe == same.nfe <= 3
    assert not torch.equal(without.tokens, with_label.tokens)


def test_every_evaluation_of_the_network_is_counted() -> None:
    network = Labelled(mask=False)
    drawn = draw(network, Ancestral(), UniformProcess, count=7, steps=5)
    assert network.sequences == 7 * 10 and drawn.nfe == 10 and drawn.calls == 5
    masked = Labelled(mask=True)
    drawn = draw(masked, MaskedAncestral(), MaskedProcess, count=7, steps=50)
    assert masked.sequences == drawn.nfe * 7 and drawn.nfe <= 4
    drawn = draw(masked, FirstHitting(), MaskedProcess, count=7, steps=None)
    assert drawn.nfe == 4


@pytest.mark.parametrize("case", CASES)
def test_a_guided_sample_does_not_depend_on_its_companions(case: str) -> None:
    sampler, process, _, _ = CASES[case]
    network = Labelled(mask=process is MaskedProcess)
    labels = torch.tensor([[0.0], [1.0], [torch.nan], [1.0]])
    together = draw(network, sampler, process, count=4, labels=labels, steps=6).tokens
    for row in range(4):
        alone = draw(network, sampler, process, count=1, labels=labels[row : row + 1], seeds=[row], steps=6)
        assert torch.equal(alone.tokens[0], together[row])


def classifier(z: Tensor, t: Tensor) -> Tensor:
    """log p(y | z), not additive over positions, for ids and for one-hot vectors alike."""
    w = torch.nn.functional.one_hot(z, K + 1).double() if z.dim() == 2 else z.double()
    scores = torch.tensor([0.5, -1.0, 1.2, 0.1], dtype=torch.float64)[: w.shape[-1]]
    each = w[..., : len(scores)] @ scores
    return (1 - 0.3 * t.double()) * (each.sum(-1) + 0.7 * each.prod(-1))


def classified_step(network: Labelled, exact: bool, strength: float = STRENGTH) -> Step:
    def step(t: Tensor, s: Tensor) -> Tensor:
        size, now = network.size, states(network.size)
        alpha_t, alpha_s = float(SCHEDULE.alpha(t)), float(SCHEDULE.alpha(s))
        if size == K:
            pi = torch.full((K,), 1 / K, dtype=torch.float64)
            here = now[:, :, None, None].expand(-1, -1, 1, K)
            base = bayes(network.probs(t, None), alpha_s, alpha_t, pi).gather(2, here).squeeze(2)
        else:
            base = functional.absorbing_posterior(network.probs(t, None), now, alpha_s, alpha_t, K)
        times = t.expand(len(now))
        tilt = torch.zeros_like(base)
        for position, value in itertools.product(range(L), range(size)):
            changed = now.clone()
            changed[:, position] = value
            tilt[:, position, value] = classifier(changed, times)
        if not exact:  # the first-order expansion by finite differences
            w = torch.nn.functional.one_hot(now, size).double()
            for position, value in itertools.product(range(L), range(size)):
                nudged = w.clone()
                nudged[:, position, value] += 1e-6
                tilt[:, position, value] = (classifier(nudged, times) - classifier(w, times)) / 1e-6
        product = base * torch.exp(strength * tilt)
        return product / product.sum(-1, keepdim=True)

    return step


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "first order"])
@pytest.mark.parametrize("case", ["uniform", "masked", "masked by psi"])
def test_classifier_guided_chains_follow_the_enumerated_law(case: str, exact: bool) -> None:
    sampler, process, _, start = CASES[case]
    size = K + (process is MaskedProcess)
    network = Labelled(mask=size > K)
    guide = ByClassifier(STRENGTH, classifier, exact=exact)
    drawn = draw(network, sampler, process, guidance=guide, labels=None)
    assert_follows(
        law(drawn.tokens, size), product_chain(classified_step(network, exact), start, 3, size, None)
    )
    assert drawn.nfe == 3
    few = draw(
        network,
        sampler,
        process,
        count=50,
        guidance=ByClassifier(STRENGTH, classifier, exact, 7),
        labels=None,
    )
    assert torch.equal(few.tokens, drawn.tokens[:50])


@pytest.mark.parametrize("hold", [(0, 2), (1, 0)], ids=["first given", "second given"])
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "first order"])
@pytest.mark.parametrize("case", ["uniform", "masked"])
def test_classifier_guided_chains_around_given_positions_follow_the_enumerated_law(
    case: str, exact: bool, hold: tuple[int, int]
) -> None:
    """The classifier reads the given token with the noisy one: the law is that of a chain in which it never moves."""
    sampler, process, _, start = CASES[case]
    size = K + (process is MaskedProcess)
    network = Labelled(mask=size > K)
    mark = torch.zeros(DRAWS, L, dtype=torch.bool)
    mark[:, hold[0]] = True
    guide = ByClassifier(STRENGTH, classifier, exact=exact)
    drawn = draw(
        network, sampler, process, guidance=guide, labels=None,
        tokens=torch.full((DRAWS, L), hold[1]), given=mark,
    )  # fmt: skip
    expected = product_chain(classified_step(network, exact), start, 3, size, hold)
    assert_follows(law(drawn.tokens, size), expected)
    assert bool((drawn.tokens[:, hold[0]] == hold[1]).all())
    # the tilt matters here: without it the law is another one
    plain = product_chain(classified_step(network, exact, strength=0.0), start, 3, size, hold)
    assert (plain - expected).abs().sum() > 0.05


def test_a_classifier_guides_re_anchored_chains_and_given_positions() -> None:
    network = Labelled(mask=False)
    mark = torch.tensor([[True, False]]).expand(500, L)
    guide = ByClassifier(STRENGTH, classifier)
    drawn = draw(
        network, SimplaxSampler(eta=0.1), UniformProcess, count=500, guidance=guide, labels=None,
        tokens=torch.full((500, L), 2), given=mark,
    )  # fmt: skip
    assert bool((drawn.tokens[:, 0] == 2).all())
    plain = draw(
        network, SimplaxSampler(eta=0.1), UniformProcess, count=500, guidance=None, labels=None,
        tokens=torch.full((500, L), 2), given=mark,
    )  # fmt: skip
    times = torch.zeros(500)
    assert classifier(drawn.tokens, times).mean() > classifier(plain.tokens, times).mean() + 0.3


def test_guidance_that_cannot_be_is_refused() -> None:
    network = Labelled(mask=True)
    with pytest.raises(ValueError, match="needs labels"):
        draw(network, MaskedAncestral(), MaskedProcess, count=2, labels=None)
    with pytest.raises(ValueError, match="must not be negative"):
        draw(network, MaskedAncestral(), MaskedProcess, count=2, guidance=-1.0)
    with pytest.raises(ValueError, match="grid of times"):
        guide = ByClassifier(1.0, classifier)
        draw(network, FirstHitting(), MaskedProcess, count=2, steps=None, guidance=guide)
    uniform, guide = Labelled(mask=False), ByClassifier(1.0, classifier)
    for sampler in (
        Psi(Fixed(0.0), redraw="prediction"),
        Psi(gibbs=Gibbs(1, 1)),
    ):  # it would be ignored there
        with pytest.raises(ValueError, match="redrawn from the posterior"):
            draw(uniform, sampler, UniformProcess, count=2, guidance=guide)
    with pytest.raises(ValueError, match="leave stop out"):
        draw(uniform, Ancestral(), UniformProcess, count=2, guidance=guide, stop=Settled())
    with pytest.raises(ValueError, match="one log-probability per sequence"):
        guide = ByClassifier(1.0, lambda z, t: z)
        draw(network, MaskedAncestral(), MaskedProcess, count=2, guidance=guide)
    with pytest.raises(ValueError, match="bridge or on the prediction"):
        ClassifierFree(1.0, on="logits")


logits = st.lists(st.floats(-8, 8), min_size=4, max_size=4)


@given(logits, logits, st.floats(0, 6))
def test_classifier_free_is_the_normalised_product_of_powers(
    one: list[float], two: list[float], gamma: float
) -> None:
    conditional, free = torch.tensor(one, dtype=torch.float64), torch.tensor(two, dtype=torch.float64)
    made = functional.classifier_free(conditional, free, gamma).exp()
    assert torch.allclose(made, tilted(conditional.softmax(-1), free.softmax(-1), gamma), atol=1e-9)
    tilt = functional.classifier_based(free.log_softmax(-1), conditional, gamma).exp()
    product = free.softmax(-1) * torch.exp(gamma * conditional)
    assert torch.allclose(tilt, product / product.sum(), atol=1e-9)


def test_what_either_law_excludes_stays_impossible() -> None:
    inf = torch.inf
    conditional = torch.tensor([[0.0, 1.0, -inf], [0.0, -inf, -inf]])
    free = torch.tensor([[-inf, 1.0, 0.0], [-inf, 0.0, 0.0]])
    made = functional.classifier_free(conditional, free, 3.0).exp()
    assert torch.equal(made, torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
