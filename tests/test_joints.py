"""Where parts meet: streams of noise, the network call, likelihoods of one token, methods that learn after a step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import toy
from simplax import samplers
from simplax.methods import AR, MDLM, METHODS, UDLM, HasLikelihood, Method, SFLMAdaptive, Simplax
from simplax.methods.likelihood import nll
from simplax.nn import Architecture, Denoiser, Network, fusing
from simplax.nn.network import Chain
from simplax.nn.sflm import Adaptation
from simplax.objectives.bridge import FiniteStep
from simplax.processes.masked import MaskedProcess
from simplax.processes.prior import Prior
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.samplers.base import Setting
from simplax.samplers.chains import TokenState
from simplax.samplers.kappa import Fixed, Plateau
from simplax.schedules import LogLinear
from simplax.times import TimeLaw, stratified
from simplax.typing import Batch, StepContext

NANO = Architecture(width=16, depth=1, heads=2, cond_dim=8)
K, L = 5, 4


def randomised(denoiser: nn.Module, seed: int = 0) -> nn.Module:
    """Weights away from zero, so that every path through the network matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return denoiser.eval()


def problem(count: int = 3) -> tuple[Batch, StepContext]:
    tokens = Keys.from_seeds(range(count)).randint(K, L)
    keys = Keys.from_seeds(range(count)).stream("training", 1)
    return Batch.of(tokens), StepContext(keys, stratified(count, 1, 0))


class Uninformed(nn.Module):
    """Every category is as likely as any other."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.vocab_size = size

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        return torch.zeros(*z.shape, self.vocab_size)


# streams of noise


@pytest.mark.parametrize("name", METHODS)
def test_no_two_draws_share_a_stream(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw of a loss, of a likelihood, and of a chain has keys of its own, those of the times among them."""
    seen: list[int] = []
    whole = Keys.bits

    def recorded(self: Keys, *shape: int) -> Tensor:
        seen.extend(self.state.tolist())
        return whole(self, *shape)

    method: Any = METHODS[name]()
    if name == "langflow":
        method = replace(method, likelihood_steps=1)
    denoiser = randomised(method.build(K, L, replace(NANO, carry="hidden")))
    batch, _ = problem()
    monkeypatch.setattr(Keys, "bits", recorded)

    def distinct() -> None:
        assert len(seen) == len(set(seen)) > 0
        seen.clear()

    keys = Keys.from_seeds(range(3)).stream("training", 1)
    method.loss(denoiser, batch, StepContext(keys, stratified(3, 1, 0)))
    distinct()
    if isinstance(method, HasLikelihood) and not method.exact_likelihood:
        nll(method, denoiser, batch.tokens, draws=2)
        distinct()
    sampler = method.sampler()
    samplers.sample(
        denoiser,
        (3, L),
        sampler=sampler,
        process=method.process(denoiser),
        num_steps=None if sampler.steps_for(L) else 3,
        vocab_size=K,
        seeds=range(3),
    )
    distinct()


# likelihoods of one sequence of one token


@pytest.mark.parametrize("sequences", [pytest.param(1, marks=pytest.mark.slow), 4, 16])
@pytest.mark.parametrize("name", [name for name, cls in METHODS.items() if issubclass(cls, HasLikelihood)])
def test_one_token_of_an_uninformed_network_costs_log_k(name: str, sequences: int) -> None:
    """The bound is exact for the uniform prediction, however few sequences share the stratified times."""
    method: Any = METHODS[name]()
    if name == "langflow":
        pytest.skip("its network must have vectors; its bound has a test of its own")
    value = nll(method, Uninformed(K), torch.zeros(sequences, 1, dtype=torch.long), draws=6000 // sequences)
    slack = 5 * value.monte_carlo_error if not value.exact else 1e-6
    assert abs(value.nats_per_token - math.log(K)) < slack
    assert slack < 0.5


def test_a_likelihood_never_tosses_the_coin_of_training() -> None:
    """With and without a first call the value is one of two bounds, not a mixture of them."""
    method = UDLM()
    denoiser = randomised(method.build(K, L, replace(NANO, carry="hidden")))
    batch, context = problem(64)
    for carry in (True, False):
        context = replace(context, keys=Keys.from_seeds(range(64)))
        once = method.nll(denoiser, batch, context, carry=carry).per_token
        network = Network.of(denoiser)
        again = method.nll(network, batch, replace(context, training=False), carry=carry).per_token
        assert torch.equal(once, again)
        assert network.sequences == 64 * (2 if carry else 1)


def test_a_network_that_reads_w_is_scored_on_states_around_its_token() -> None:
    method = Simplax(concentration=0.5, form="atoms", reads_w=True)
    shown: list[Any] = []

    class Reads(Uninformed):
        def forward(self, z: Any, t: Tensor) -> Tensor:  # type: ignore[override]
            shown.append(z)
            return torch.zeros(*z.ids.shape[:2], self.vocab_size)

    batch, context = problem(200)
    method.nll(Reads(K), batch, context)
    assert len(shown) == 2 and shown[0].ids.shape[-1] == 1
    weights = shown[1].weights
    assert torch.equal(shown[1].ids[..., 0], shown[0].ids[..., 0])
    # E[first weight] of Dir(eta p + e_z) is (1 + eta p(z)) / (1 + eta) without the mass other atoms put on z
    assert float(weights[..., 0].mean()) == pytest.approx(1 / 1.5, abs=0.05)


def test_times_from_zero_on_are_finite() -> None:
    batch, context = problem(64)
    for method in (UDLM(times=TimeLaw(0.0)), Simplax(times=TimeLaw(0.0)), METHODS["duo"](times=TimeLaw(0.0))):
        denoiser = randomised(method.build(K, L, NANO))
        first = replace(context, u=torch.zeros(64, dtype=torch.float64))
        for at in (context, first):
            for part in (method.loss, method.nll, method.boundary_terms):
                assert part(denoiser, batch, replace(at, training=False)).per_token.isfinite().all()


# the network call


def test_a_subclass_that_projects_by_itself_is_not_bypassed() -> None:
    class Doubled(Denoiser):
        def logits(self, features: Tensor) -> Tensor:
            return 2 * super().logits(features)

    tokens = Keys.from_seeds(range(2)).randint(K, L)
    t = torch.tensor([0.3, 0.6])
    for cls in (Denoiser, Doubled):
        denoiser = randomised(cls(K, L, NANO, time=LogLinear().sigma))
        with fusing(1):
            fused = Network(denoiser, K)(tokens, t, Batch.of(tokens))
        assert (fused.projection is None) == (cls is Doubled)
        torch.testing.assert_close(fused.logits, denoiser(tokens, t))


def test_networks_of_the_published_shape() -> None:
    """An output for the mask, and K + 1 rows: it is never predicted, scored or drawn."""
    tokens = Keys.from_seeds(range(6)).randint(K, L)
    batch, context = Batch.of(tokens), StepContext(Keys.from_seeds(range(6)), stratified(6, 0, 0))
    wide = randomised(Denoiser(K + 1, L, NANO, num_categories=K))
    plain = Denoiser(K + 1, L, NANO, output_size=K).eval()
    state = wide.state_dict()
    state["output_layer.linear.weight"], state["output_layer.linear.bias"] = (
        state[f"output_layer.linear.{part}"][:K] for part in ("weight", "bias")
    )
    plain.load_state_dict(state)
    for least in (1, None):
        with fusing(least):
            values = [MDLM().loss(one, batch, context).per_token for one in (wide, plain)]
        torch.testing.assert_close(*values)
    causal = [
        randomised(Denoiser(K + 1, L, NANO, output_size=size, num_categories=K, adaln=False, causal=True))
        for size in (K + 1, K)
    ]
    theirs = causal[0].state_dict()
    causal[1].load_state_dict(
        {
            name: value[:K] if name.startswith("output_layer.linear") else value
            for name, value in theirs.items()
        }
    )
    values = [AR().loss(one, batch, context).per_token for one in causal]
    torch.testing.assert_close(*values)


def test_a_carried_sample_does_not_depend_on_its_companions() -> None:
    for carry in ("probabilities", "hidden"):
        method = MDLM()
        denoiser = randomised(method.build(K, L, replace(NANO, carry=carry)))
        arguments: dict[str, Any] = {
            "sampler": method.sampler(),
            "process": method.process(denoiser),
            "num_steps": 6,
            "vocab_size": K,
        }
        together = samplers.sample(denoiser, (8, L), seeds=range(8), **arguments)
        alone = [samplers.sample(denoiser, (1, L), seeds=[n], **arguments) for n in range(8)]
        assert torch.equal(together.tokens, torch.cat([one.tokens for one in alone]))
        assert together.nfe == pytest.approx(sum(one.nfe for one in alone) / 8)


def test_hidden_carry_changes_nothing_at_initialisation() -> None:
    torch.manual_seed(0)
    plain = Denoiser(K, L, NANO, time=LogLinear().sigma)
    carrying = Denoiser(K, L, replace(NANO, carry="hidden"), time=LogLinear().sigma)
    carrying.load_state_dict({**carrying.state_dict(), **randomised(plain).state_dict()})
    tokens, t = Keys.from_seeds(range(3)).randint(K, L), torch.tensor([0.2, 0.5, 0.9])
    h = torch.randn(3, L, 16)
    assert torch.equal(plain(tokens, t), carrying(tokens, t, carry=h))
    assert torch.equal(carrying(tokens, t), carrying(tokens, t, carry=torch.zeros_like(h)))
    logits, hidden = carrying(tokens, t, carry=h, give_carry=True)
    assert torch.equal(logits, plain(tokens, t)) and hidden.shape == h.shape
    logits.sum().backward()
    assert carrying.carry_norm is not None and carrying.carry_norm.weight.grad.abs().sum() > 0


def test_the_first_call_runs_only_for_rows_that_use_it() -> None:
    batch, context = problem(200)
    for carry, share in (("probabilities", 0.5), ("hidden", 0.9)):
        network = Network.of(randomised(UDLM().build(K, L, replace(NANO, carry=carry))))
        UDLM().loss(network, batch, context)
        assert 200 < network.sequences < 400
        assert network.sequences - 200 == pytest.approx(200 * share, abs=25)
        assert network.block_passes == network.sequences


def test_a_rollout_trains_on_every_call_and_leaks_nothing() -> None:
    """Its states are one path of the noising process: each has the law of its time given x."""
    process = UniformProcess(LogLinear(), Prior(K))
    count = 20_000
    x = torch.full((count, 1), 2)
    late, early = (torch.tensor(t, dtype=torch.float64) for t in (0.8, 0.3))
    z = process.corrupt(x, late, Keys.from_seeds(range(count)).stream("a"))
    z_s = process.recover(z, x, late, early, Keys.from_seeds(range(count)).stream("b"))
    alpha_s, alpha_t = (float(process.alpha(t)) for t in (early, late))
    assert float((z_s == 2).double().mean()) == pytest.approx(alpha_s + (1 - alpha_s) / K, abs=0.015)
    # given z_s the noisier state is a further noising of it, whatever x is
    kept = z[z_s == 4] == 4
    assert float(kept.double().mean()) == pytest.approx(alpha_t / alpha_s * (1 - 1 / K) + 1 / K, abs=0.03)
    method = UDLM(rollout=3)
    batch, context = problem(8)
    network = Network.of(randomised(method.build(K, L, replace(NANO, carry="hidden"))))
    loss = method.loss(network, batch, context)
    assert network.calls == 3 and loss.per_token.isfinite().all()
    with pytest.raises(ValueError, match="rollout needs a network with a carry"):
        method.loss(method.build(K, L, NANO), batch, context)


# samplers


@pytest.mark.parametrize("num_steps", [1, 2, 4, 8, 10, 16, 100])
def test_a_plateau_comes_to_its_end(num_steps: int) -> None:
    times = Plateau()(num_steps)
    assert times[0] == 1.0 and times[-1] == 1e-5 and (times.diff() <= 0).all()
    drawn = samplers.sample(
        toy.Masked(),
        (200, 2),
        sampler=samplers.Psi(Fixed(1.0), Plateau(), last="greedy"),
        process=MaskedProcess,
        schedule=LogLinear(),
        num_steps=num_steps,
        vocab_size=toy.K,
        seeds=range(200),
    )
    assert (drawn.tokens < toy.K).all()


def test_the_posterior_end_starts_from_the_anchor_just_drawn() -> None:
    """Shortly before time zero an uninformed network leaves the anchor as it is, whatever the last token was."""
    setting = Setting(4000, 1, 1, UniformProcess(LogLinear(), Prior(3)))
    z = torch.zeros(4000, 1, dtype=torch.long)
    for last in ("posterior", "posterior_argmax"):
        sampler = samplers.Simplax(eta=1.0, last=last)
        state = TokenState(z, z + 1)
        t = torch.tensor(0.03, dtype=torch.float64)
        keys = Keys.from_seeds(range(4000))
        done = sampler.finish(state, Chain(Uninformed(3), 3), t, setting, keys)
        assert float((done.z == 1).double().mean()) > 0.95


def test_a_chain_of_finite_steps_adds_up() -> None:
    """With N = 1 the one step goes from t = 1 to 0, and its loss is the whole bound of an uninformed network."""
    batch, context = (
        Batch.of(torch.zeros(4000, 1, dtype=torch.long)),
        StepContext(Keys.from_seeds(range(4000)), stratified(4000, 0, 0)),
    )
    for num_steps in (1, 2, 10):
        value = UDLM(num_steps=num_steps).loss(Uninformed(K), batch, context).per_token
        error = float(value.std()) / 4000**0.5
        assert abs(float(value.mean()) - math.log(K)) < 5 * error + 0.01
    assert torch.equal(
        FiniteStep(num_steps=4).times(torch.tensor([0.0, 0.3, 0.99])), torch.tensor([0.25, 0.5, 1.0])
    )


# priors other than the uniform one


def test_a_run_towards_unigram_frequencies(tmp_path: Any) -> None:
    """Trained, resumed without its file, exported, sampled and scored: the prior is kept with the weights."""
    from simplax import recipes
    from simplax.pretrained import from_pretrained
    from simplax.recipes.launch import launch
    from simplax.recipes.prior import unigram

    plain = recipes.smoke(recipes.get("toy-udlm"))
    (tmp_path / "pi.txt").write_text("1\n2\n3\n4\n6\n")
    expected = torch.tensor([1.0, 2, 3, 4, 6], dtype=torch.float64) / 16
    for pi, law in (("unigram", unigram(plain)), (str(tmp_path / "pi.txt"), expected)):
        config = replace(plain, method=replace(plain.method, pi=pi))
        run = tmp_path / pi[-3:]
        launch(replace(config, run=replace(config.run, steps=3)), run, quiet=True)
        (tmp_path / "pi.txt").unlink(missing_ok=pi == "unigram")
        launch(config, run, quiet=True)
        (tmp_path / "pi.txt").write_text("1\n2\n3\n4\n6\n")
        model = from_pretrained(
            from_pretrained(run, device="cpu").save_pretrained(tmp_path / "out"), device="cpu"
        )
        torch.testing.assert_close(model.denoiser.pi, law)
        start = model.method.process(model.denoiser).start(20_000, 1, Keys.from_seeds(range(20_000)))
        shares = torch.bincount(start.flatten(), minlength=5) / 20_000
        torch.testing.assert_close(shares.double(), law, atol=0.015, rtol=0)
        assert model.sample(4, seeds=0).tokens.shape == (4, 8)
        assert math.isfinite(model.nll(model.config.task.held_out_batch(8).tokens, draws=2).nats_per_token)
        # another run that starts from these weights keeps a prior of its own
        other = replace(config, method=replace(config.method, pi="unigram"), run=replace(config.run, seed=9))
        launch(other, tmp_path / f"{pi[-3:]}-other", init_from=run, quiet=True)
        kept = from_pretrained(tmp_path / f"{pi[-3:]}-other", device="cpu").denoiser.pi
        torch.testing.assert_close(kept, unigram(plain))
    (tmp_path / "pi.txt").write_text("1\n0\n")
    with pytest.raises(ValueError, match="must hold 5 positive numbers"):
        launch(replace(plain, method=replace(plain.method, pi=str(tmp_path / "pi.txt"))), tmp_path / "bad")


@pytest.mark.parametrize("probs", [None, (0.7, 0.1, 0.15, 0.05)])
def test_the_bound_is_exact_towards_any_prior(probs: tuple[float, ...] | None) -> None:
    """One token and a fixed prediction q: nll and boundary terms integrate to -log q(x) for every x."""
    q = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)

    class Fixed(nn.Module):
        vocab_size = 4
        pi = None if probs is None else torch.tensor(probs, dtype=torch.float64)

        def forward(self, z: Tensor, t: Tensor) -> Tensor:
            return q.log().expand(*z.shape, 4)

    count = 40_000
    u = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    for x in range(4):
        batch = Batch.of(torch.full((count, 1), x))
        context = StepContext(Keys.from_seeds(range(count)), u, training=False)
        parts = [
            part(Fixed(), batch, context).per_token.double() for part in (UDLM().nll, UDLM().boundary_terms)
        ]
        total = (parts[0] + parts[1]).squeeze(-1)
        error = float(total.std()) / count**0.5
        assert abs(float(total.mean()) + math.log(q[x])) < 5 * error + 2e-3


# padding


def test_left_padding_is_as_good_as_none() -> None:
    method = AR()
    denoiser = randomised(method.build(K, 6, NANO))
    tokens = Keys.from_seeds(range(3)).randint(K, 4)
    plain = method.loss(denoiser, Batch.of(tokens), StepContext(Keys.from_seeds(range(3)), torch.zeros(3)))
    for left, right in ((2, 0), (0, 2), (1, 1)):
        padded = nn.functional.pad(tokens, (left, right), value=1)
        attend = nn.functional.pad(torch.ones_like(tokens, dtype=torch.bool), (left, right))
        batch = Batch.of(padded, attend=attend)
        loss = method.loss(denoiser, batch, StepContext(Keys.from_seeds(range(3)), torch.zeros(3)))
        torch.testing.assert_close(loss.per_token[:, left : left + 4], plain.per_token, rtol=1e-4, atol=1e-5)
        assert (loss.per_token[~attend] == 0).all()


# losses are pure


@pytest.mark.parametrize("name", METHODS)
def test_a_loss_changes_nothing_and_repeats_itself(name: str) -> None:
    method: Any = METHODS[name]()
    denoiser = randomised(method.build(K, L, NANO)).train()
    before = {key: value.clone() for key, value in denoiser.state_dict().items()}
    batch, context = problem()
    context = replace(context, step=5000)
    values = [method.loss(denoiser, batch, context).per_token for _ in range(2)]
    assert torch.equal(*values)
    assert all(torch.equal(value, before[key]) for key, value in denoiser.state_dict().items())
    # the context is the only switch between training and measuring
    denoiser.eval()
    assert torch.equal(method.loss(denoiser, batch, context).per_token, values[0])


def test_a_schedule_adapts_after_the_step_and_only_then() -> None:
    method = SFLMAdaptive(adaptation=Adaptation(buffer=100, every=1, warmup=0))
    denoiser: Any = method.build(K, L, NANO)
    t = torch.linspace(0, 1, 128, dtype=torch.float64)
    alphas = denoiser.noise.alphas.clone()
    method.after_step(denoiser, {"time": t, "loss": t**4}, step=3)
    assert not torch.equal(denoiser.noise.alphas, alphas)


# an eleventh method


@dataclass(frozen=True)
class Eleventh(UDLM):
    """Nothing new, in a file of its own."""


def test_a_new_method_is_one_class_and_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from simplax.cli import main
    from simplax.config import from_json, to_json
    from simplax.recipes import registry

    monkeypatch.setitem(METHODS, "eleventh", Eleventh)
    monkeypatch.setattr(registry, "RECIPES", dict(registry.RECIPES))
    assert main(["methods"]) == 0
    assert "eleventh" in capsys.readouterr().out
    assert isinstance(METHODS["eleventh"](), Method)
    config = registry.get("toy-eleventh")
    assert isinstance(config.method, Eleventh)
    assert from_json(to_json(config)) == config
