"""CANDI, FLM, LangFlow and both S-FLMs under the shared contracts: they learn, sample, infill, and can be stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simplax import recipes
from simplax.methods import (
    CANDI,
    CATALOGUE,
    FLM,
    METHODS,
    SFLM,
    Adaptation,
    HasLikelihood,
    LangFlow,
    Method,
    SFLMAdaptive,
    likelihood,
)
from simplax.nn import Architecture
from simplax.nn.vectors import unit
from simplax.pretrained import model as hub
from simplax.random import Keys
from simplax.recipes.launch import build, launch
from simplax.samplers import GeodesicEuler
from simplax.samplers.loop import Samples, sample
from simplax.tasks import ToyTask
from simplax.times import stratified
from simplax.train import Optimizer, Run, train
from simplax.typing import Batch, StepContext

NAMES = ["candi", "flm", "langflow", "sflm", "sflm_adaptive"]
QUICK: dict[str, Method] = {
    "candi": CANDI(),
    "flm": FLM(),
    "langflow": LangFlow(skip_warmup=20, likelihood_steps=24),
    "sflm": SFLM(),
    "sflm_adaptive": SFLMAdaptive(adaptation=Adaptation(buffer=640, every=10, warmup=30)),
}
SMALL = Architecture(width=16, depth=1, heads=2, cond_dim=16, given_embedding=True)
LEARNER = Architecture(width=64, depth=1, heads=2, cond_dim=32)
TASK = ToyTask()


def fresh(name: str, architecture: Architecture = SMALL, length: int = 8) -> nn.Module:
    """A network with opinions: initial heads and gates are zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        denoiser = QUICK[name].build(5, length, architecture)
        for parameter_name, parameter in denoiser.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.05 if "adaLN" in parameter_name else 0.5)
            elif "blocks" in parameter_name and "adaLN" in parameter_name:
                nn.init.constant_(parameter, 0.3)
    return denoiser.eval()


def draw(name: str, denoiser: Any, seeds: list[int], num_steps: int = 6, **options: Any) -> Samples:
    method = QUICK[name]
    return sample(
        denoiser,
        (len(seeds), options.pop("length", 8)),
        sampler=options.pop("sampler", method.sampler()),
        schedule=method.schedule,
        num_steps=num_steps,
        vocab_size=5,
        seeds=seeds,
        **options,
    )


@pytest.mark.parametrize("name", NAMES)
def test_registered_and_described(name: str) -> None:
    assert type(METHODS[name]()) is type(QUICK[name])
    bound = "bound" if isinstance(METHODS[name](), HasLikelihood) else "none"
    assert CATALOGUE[name].likelihood == bound
    assert {f"{family}-{name}" for family in ("toy", "sudoku4", "sudoku-paper")} <= set(recipes.RECIPES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_steps", [1, 2, 7])
def test_samples_cost_one_call_per_step_and_belong_to_their_seed(name: str, num_steps: int) -> None:
    denoiser = fresh(name)
    out = draw(name, denoiser, [4, 5, 6], num_steps, trajectory=True)
    assert out.nfe == num_steps
    assert torch.equal(out.tokens[1:2], draw(name, denoiser, [5], num_steps).tokens)
    assert out.trajectory is not None and out.trajectory.shape[1:] == (3, 8)
    assert int(out.tokens.min()) >= 0 and int(out.tokens.max()) < 5


@pytest.mark.parametrize("name", NAMES)
def test_given_positions_keep_their_tokens_and_inform_the_others(name: str) -> None:
    denoiser, seeds = fresh(name), list(range(64))
    tokens = Keys.from_seeds(seeds).randint(5, 8)
    given = torch.arange(8) % 2 == 0
    given = given.expand(64, 8)
    hidden = torch.where(given, tokens, -1)  # ids of free positions are never read
    out = draw(name, denoiser, seeds, tokens=hidden, given=given, trajectory=True)
    assert out.trajectory is not None
    for moment in out.trajectory:
        assert torch.equal(moment[given], tokens[given])
    other = draw(name, denoiser, seeds, tokens=(hidden + 1) % 5, given=given)
    assert not torch.equal(out.tokens[~given], other.tokens[~given])


@dataclass(frozen=True)
class Nearest:
    """A network on the sphere that finds tokens the likelier the nearer they are."""

    def rows(self) -> Tensor:
        return unit(Keys.from_seeds([1]).normal(5, 16))[0]

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - 0.999 * t

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        return 8 * z.float() @ self.rows().T


def test_temperature_enters_every_step_and_not_the_last_choice() -> None:
    seeds = list(range(200))
    plain, cold = (draw("sflm", Nearest(), seeds, temperature=value) for value in (1.0, 1e-4))
    assert not torch.equal(plain.tokens, cold.tokens)
    # with certain predictions the first choice is the last
    start = draw("sflm", Nearest(), seeds, 1)
    assert torch.equal(cold.tokens, start.tokens)
    assert torch.equal(draw("sflm", Nearest(), seeds, 1, temperature=7.0).tokens, start.tokens)


@pytest.mark.parametrize("name", ["candi", "flm", "langflow", "sflm_adaptive"])
def test_temperature_matters(name: str) -> None:
    denoiser, seeds = fresh(name), list(range(64))
    cold, hot = (draw(name, denoiser, seeds, temperature=value).tokens for value in (1e-4, 3.0))
    assert not torch.equal(cold, hot)


def test_velocity_options() -> None:
    seeds = list(range(200))

    def tokens(**options: Any) -> Tensor:
        return draw("sflm", Nearest(), seeds, sampler=GeodesicEuler(**options)).tokens

    full, nearest = tokens(), tokens(top_k=1)
    assert torch.equal(full, tokens(top_k=5))
    assert torch.equal(nearest, draw("sflm", Nearest(), seeds, temperature=1e-4).tokens)
    assert torch.equal(nearest, tokens(draw=True, top_k=1))
    assert not torch.equal(full, nearest) and not torch.equal(full, tokens(draw=True))
    with pytest.raises(ValueError, match="top_k"):
        GeodesicEuler(top_k=0)


@pytest.mark.parametrize("name", NAMES)
def test_loss_is_per_sample_and_zero_where_not_scored(name: str) -> None:
    method, denoiser = QUICK[name], fresh(name)
    tokens = Keys.from_seeds(range(6)).randint(5, 8)
    given = torch.arange(8) < 3
    whole = Batch.of(tokens, given.expand(6, 8))
    context = StepContext(Keys.from_seeds(range(6)), stratified(6, 0, 0), 0)
    loss = method.loss(denoiser, whole, context)
    assert loss.per_token.shape == (6, 8) and bool((loss.per_token >= 0).all())
    assert not loss.per_token[:, :3].any() and torch.equal(loss.scored, whole.scored)
    part = Batch.of(tokens[2:4], given.expand(2, 8))
    inner = StepContext(Keys(context.keys.state[2:4]), context.u[2:4], 0)
    alone = method.loss(denoiser, part, inner)
    torch.testing.assert_close(alone.per_token, loss.per_token[2:4], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_learns(name: str) -> None:
    """Also those of schedules; DDP waits for all of them."""
    denoiser = fresh(name).train()
    batch = Batch.of(Keys.from_seeds(range(32)).randint(5, 8))
    context = StepContext(Keys.from_seeds(range(32)), stratified(32, 0, 0), 20)
    QUICK[name].loss(denoiser, batch, context).mean().backward()
    for parameter_name, parameter in denoiser.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.abs().sum() > 0), parameter_name


@pytest.mark.parametrize("name", ["candi", "flm", "sflm"])
def test_self_conditioning_is_fed_by_the_loop(name: str) -> None:
    architecture = replace(SMALL, carry="probabilities")
    denoiser = fresh(name, architecture)
    fed: list[bool] = []
    denoiser.register_forward_pre_hook(
        lambda module, args, kwargs: fed.append("self_condition" in kwargs), with_kwargs=True
    )
    draw(name, denoiser, [0, 1], 4)
    assert fed == [False, True, True, True]
    batch = Batch.of(Keys.from_seeds(range(8)).randint(5, 8))
    context = StepContext(Keys.from_seeds(range(8)), stratified(8, 0, 0), 0)
    loss = QUICK[name].loss(denoiser.train(), batch, context)
    (gradient,) = torch.autograd.grad(loss.mean(), [denoiser.trunk.self_condition_map.weight])  # type: ignore[union-attr]
    assert bool(gradient.abs().sum() > 0)


def test_a_network_without_vectors_is_refused() -> None:
    def network(z: Tensor, t: Tensor) -> Tensor:
        return torch.zeros(2, 8, 5)

    for name in NAMES:
        with pytest.raises(ValueError, match="one vector per category"):
            draw(name, network, [0, 1])


def test_ids_are_refused_by_networks_of_vectors() -> None:
    with pytest.raises(ValueError, match="float vectors"):
        fresh("flm")(torch.zeros(1, 8, dtype=torch.long), torch.tensor([0.5]))


def test_bad_options_are_refused() -> None:
    for make in (
        lambda: CANDI(ranks=(0.3, 0.1)),
        lambda: CANDI(mix=1.0),
        lambda: LangFlow(self_conditioning=2.0),
        lambda: LangFlow(likelihood_steps=0),
    ):
        with pytest.raises(ValueError):
            make()


def test_precision_and_blocks_are_those_of_the_trunk() -> None:
    from simplax.train.optimizer import is_block_matrix

    denoiser = fresh("flm")
    denoiser.autocast = torch.bfloat16  # type: ignore[assignment]
    assert denoiser.trunk.autocast is torch.bfloat16  # type: ignore[union-attr]
    logits = denoiser(torch.randn(2, 8, 16), torch.tensor([0.1, 0.9]))
    assert logits.dtype is torch.float32
    assert sum(is_block_matrix(name, p) for name, p in denoiser.named_parameters()) == 4


def chain_surprise(tokens: Tensor) -> float:
    return float(-TASK.chain.log_prob(tokens).mean()) / TASK.length


# training losses are of different kinds, so each has its own coarse bound; samples are compared with the chain itself
THRESHOLDS = {"candi": 0.75, "flm": 0.85, "langflow": 1.0, "sflm": 0.35, "sflm_adaptive": 0.9}


@pytest.mark.parametrize("name", NAMES)
def test_learns_the_markov_chain(name: str, tmp_path: Path) -> None:
    optimizer = Optimizer("muon", learning_rate=5e-3, matrix_learning_rate=0.02, warmup=5)
    run = Run(
        steps=90, batch_size=64, optimizer=optimizer, ema=0.9, precision="float32", log_every=30, save_every=0
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        denoiser = QUICK[name].build(TASK.vocab_size, TASK.length, LEARNER)
    result = train(QUICK[name], denoiser, TASK.train(), run, tmp_path, config={}, device="cpu", quiet=True)
    tokens = draw(name, denoiser, list(range(300)), 10).tokens
    uniform = chain_surprise(Keys.from_seeds(range(300)).randint(5, 8))
    assert result.loss < THRESHOLDS[name]
    # more than half of the way from random tokens to the chain's own entropy
    assert chain_surprise(tokens) < 0.5 * (uniform + TASK.entropy())
    if name == "sflm_adaptive":
        assert int(denoiser.adaptive.refits) == 5  # type: ignore[union-attr]
    if name == "langflow":
        check_bound(denoiser)


def check_bound(denoiser: nn.Module) -> None:
    """The bound of a trained network lies above the entropy and below that of independent uniform tokens."""
    tokens = TASK.validation().batch(torch.arange(24)).tokens
    bound = likelihood.nll(QUICK["langflow"], denoiser, tokens, draws=2)
    assert not bound.exact
    assert -TASK.chain.log_prob(tokens).mean() / 8 - 0.1 < bound.nats_per_token < math.log(5) + 0.1


@pytest.mark.parametrize(
    "name",
    [f"{family}-{name}" for family in ("toy", "sudoku4", "sudoku-paper", "text-mini") for name in NAMES],
)
def test_five_steps_on_every_task(name: str, tmp_path: Path) -> None:
    """Train, load, infill, through the same code as whole runs."""
    config = recipes.smoke(recipes.get(name))
    result = launch(config, tmp_path, device="cpu", quiet=True)
    assert result.step == 5 and math.isfinite(result.loss)
    model = hub.from_pretrained(tmp_path, device="cpu")
    batch = config.task.validation().batch(torch.arange(2))
    out = model.sample(2, seeds=0, tokens=batch.tokens, given=batch.given)
    assert torch.equal(out.tokens[batch.given], batch.tokens[batch.given])
    assert int(out.tokens.max()) < config.task.vocab_size
    state = build(config).state_dict()
    assert state.keys() == model.denoiser.state_dict().keys()
