"""What every discrete method owes: infilling, given positions, honest likelihoods, a loss that trains."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax.data.markov import MarkovChain, MarkovSource
from simplax.methods import AR, MDLM, METHODS, SDM, UDLM, Curriculum, Duo, DuoBase, Method, Simplax
from simplax.methods.likelihood import nll
from simplax.nn import Architecture
from simplax.random import Keys
from simplax.samplers import FirstHitting, Psi, SimplexChurn, marginal_reanchor, sample
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.kappa import Remask
from simplax.times import TimeLaw, stratified
from simplax.typing import Batch, StepContext

ROOT = Path(__file__).parents[1]


def _script(name: str) -> Any:
    """A benchmark as a module: what it trains and what is tested are one."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


learn_markov = _script("learn_markov")
K, L = 5, 8
SMALL = Architecture(width=16, depth=1, heads=2)
FILLING: dict[str, tuple[Method, Any]] = {
    "udlm": (UDLM(), None),
    "udlm, Simplax's sampler": (UDLM(), SimplaxSampler(eta=1.0)),
    "duo, Simplax's sampler": (Duo(), SimplaxSampler(eta=1.0, form="dense")),
    "duo-base, re-anchored": (DuoBase(), marginal_reanchor(0.5)),
    "mdlm": (MDLM(), None),
    "mdlm, first hitting": (MDLM(), FirstHitting()),
    "mdlm, remasked": (MDLM(), Psi(Remask(0.2))),
    "sdm": (SDM(), None),
    "sdm, little churn": (SDM(input="argmax"), SimplexChurn(0.2)),
    "mdlm, time conditioned": (MDLM(time_conditioning=True), None),
}


def random_network(method: Method) -> torch.nn.Module:
    torch.manual_seed(0)
    denoiser = method.build(K, L, SMALL).eval()
    with torch.no_grad():
        denoiser.head.weight.normal_()  # type: ignore[union-attr]
    return denoiser


@pytest.mark.parametrize("name", FILLING)
def test_any_pattern_of_given_tokens_is_kept(name: str) -> None:
    method, sampler = FILLING[name]
    tokens = Keys.from_seeds(torch.arange(40)).randint(K, L)
    given = Keys.from_seeds(torch.arange(40)).fold_in(1).uniform(L) < 0.4
    given[0], given[1] = True, False
    denoiser = random_network(method)
    result = sample(
        denoiser,
        (40, L),
        sampler=sampler or method.sampler(),
        process=method.process(denoiser),
        num_steps=None if isinstance(sampler, FirstHitting) else 6,
        vocab_size=K,
        seeds=range(40),
        tokens=tokens,
        given=given,
        trajectory=True,
    )
    assert result.trajectory is not None
    assert (result.trajectory[:, given] == tokens[given]).all()
    assert int(result.tokens.max()) < K and int(result.tokens.min()) >= 0
    assert (result.tokens[~given] != tokens[~given]).any()


@pytest.mark.parametrize(
    "name", sorted(METHODS.keys() & {"ar", "mdlm", "udlm", "duo", "duo-base", "simplax"})
)
def test_given_tokens_are_neither_scored_nor_noised(name: str) -> None:
    method: Any = METHODS[name]()
    denoiser = random_network(method)
    tokens = Keys.from_seeds(torch.arange(30)).randint(K, L)
    given = torch.arange(L).expand(30, L) < 3
    seen: list[Any] = []
    handle = denoiser.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    context = StepContext(Keys.from_seeds(torch.arange(30)), stratified(30, 0, 0))
    for term in (method.loss, method.nll, method.boundary_terms):
        loss = term(denoiser, Batch.of(tokens, given), context)
        assert (loss.per_token[given] == 0).all() and not loss.scored[given].any()
        assert torch.isfinite(loss.per_token).all()
    handle.remove()
    for z in seen if name != "ar" else []:
        top = z if isinstance(z, torch.Tensor) and not z.is_floating_point() else z.argmax(-1)
        assert torch.equal(top[given], tokens[given])


def test_losses_at_initialisation() -> None:
    """A network that predicts the uniform law has a known loss; so the scale of every objective is right."""
    count = 8000
    tokens = Keys.from_seeds(torch.arange(count)).randint(K, L)
    context = StepContext(Keys.from_seeds(torch.arange(count)), stratified(count, 0, 0))

    def kl(alpha: float) -> float:
        stays, other = alpha + (1 - alpha) / K, (1 - alpha) / K
        return math.log(K) + stays * math.log(stays) + (K - 1) * other * math.log(other)

    expected = {
        AR(): math.log(K),
        MDLM(): 0.999 * math.log(K),
        UDLM(): (kl(1 - 0.999e-3) - kl(1e-3)) / 0.999,
        DuoBase(): (kl(1 - 0.999e-3) - kl(1e-3)) / 0.999,
    }
    for method, value in expected.items():
        with torch.no_grad():
            loss = method.loss(method.build(K, L, SMALL), Batch.of(tokens), context).per_token.mean(-1)
        assert float(loss.mean()) == pytest.approx(value, abs=5 * float(loss.std()) / count**0.5 + 1e-6), (
            method
        )


def test_likelihood_is_exact_for_ar_and_says_so() -> None:
    tokens = Keys.from_seeds(torch.arange(64)).randint(K, L)
    exact = nll(AR(), AR().build(K, L, SMALL), tokens)
    assert exact.exact and exact.nats_per_token == pytest.approx(math.log(K), rel=1e-6)
    assert exact.monte_carlo_error == 0.0
    assert exact.nats_per_character(2 * exact.scored_tokens) == pytest.approx(exact.nats_per_token / 2)
    bound = nll(UDLM(), UDLM().build(K, L, SMALL), tokens, draws=40)
    assert not bound.exact
    assert bound.nats_per_token == pytest.approx(math.log(K), abs=5 * bound.monte_carlo_error)


@pytest.mark.parametrize("method", [UDLM(), Duo(), MDLM(), Simplax()])
def test_the_bound_of_an_uninformed_network_is_log_k(method: Any) -> None:
    """With both ends in it the bound of the uniform prediction is exact: no model with that network does better."""
    tokens = Keys.from_seeds(torch.arange(256)).randint(K, L)
    found = nll(method, method.build(K, L, SMALL), tokens, draws=30)
    assert found.nats_per_token == pytest.approx(math.log(K), abs=5 * found.monte_carlo_error + 1e-6)
    early = type(method)(times=TimeLaw(0.2, 0.6))
    found = nll(early, method.build(K, L, SMALL), tokens, draws=30)
    assert found.nats_per_token == pytest.approx(math.log(K), abs=5 * found.monte_carlo_error + 1e-6)


def test_a_first_token_that_is_not_scored_is_not_counted() -> None:
    method = AR(bos_in_data=True)
    found = nll(method, method.build(K, L, SMALL), torch.zeros(3, L).long())
    assert found.scored_tokens == 3 * (L - 1)
    assert found.nats_per_token == pytest.approx(math.log(K), rel=1e-6)


TRAINED: dict[str, Method] = {
    "ar": AR(),
    "mdlm": MDLM(),
    "udlm": UDLM(),
    "duo": Duo(curriculum=Curriculum(end=80, log10_temperature=(-1.0, -2.0))),
    "duo++": Duo(curriculum=Curriculum(end=80, top_k=2)),
}
EASY = MarkovChain(5, sharpness=2.5, seed=48)  # a token says much about its neighbours and little on its own


@pytest.mark.parametrize("name", TRAINED)
def test_methods_learn_in_seconds(name: str) -> None:
    """The bound falls far below the entropy of single tokens, never below the truth; samples look like the data."""
    method, length = TRAINED[name], 8
    denoiser = learn_markov.train(method, MarkovSource(EASY, length), 240, 32)
    tokens = MarkovSource(EASY, length, stream=1).batch(torch.arange(400)).tokens
    found = nll(method, denoiser, tokens, draws=8)
    truth = -float(EASY.log_prob(tokens).mean()) / length
    single = -float((EASY.initial * EASY.initial.log()).sum())
    assert found.nats_per_token > truth - 5 * found.monte_carlo_error - 1e-3
    assert found.nats_per_token < truth + 0.5 * (single - truth), (found.nats_per_token, truth, single)

    sampler = method.sampler()
    steps = None if sampler.steps_for(length) else 24
    drawn = sample(
        denoiser,
        (200, length),
        sampler=sampler,
        process=method.process(denoiser),
        num_steps=steps,
        vocab_size=5,
        seeds=range(200),
    )
    random = Keys.from_seeds(torch.arange(200)).randint(5, length)
    ours, worst = (-float(EASY.log_prob(x).mean()) / length for x in (drawn.tokens, random))
    assert ours < truth + 0.3 * (worst - truth), (ours, truth, worst)


@pytest.mark.training
@pytest.mark.parametrize("name", learn_markov.METHODS)
def test_methods_learn_a_known_chain(name: str) -> None:
    """K = 8, L = 32: AR within 1 % of the entropy, the bounds within 5 %, all from above."""
    found = learn_markov.learn(name)
    value, truth, error = (found[key] for key in ("nats_per_token", "truth", "monte_carlo_error"))
    assert value > truth - 4 * error
    assert value < truth * (1 + learn_markov.TOLERANCE[name]) + 2 * error
