"""SDM (arXiv 2609.35553): equations, laws of its steps, chains with the exact posterior, learning."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import toy
from failure_budget import accept, chi_square
from pushforward import total_variation
from simplax.concentration import Concentration, Constant, Normalised, PerToken, Vanishing, parse, spell
from simplax.data.markov import MarkovChain, MarkovSource
from simplax.functional import churn_step, simplex_posterior
from simplax.methods import SDM
from simplax.methods import Simplax as SimplaxMethod
from simplax.nn import Architecture, Network
from simplax.processes.dirichlet import LogDense, SimplexProcess, draw_churn, likeliest
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Dense
from simplax.random import Keys
from simplax.samplers import Psi, SimplexChurn, sample
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.kappa import Fixed
from simplax.schedules import Linear
from simplax.times import stratified
from simplax.typing import Batch, StepContext


def _script(name: str) -> Any:
    """A benchmark as a module."""
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


learn_markov = _script("learn_markov")
NU = Normalised(0.4, 0.75, 0.8)
LAW = torch.tensor([[0.30, 0.04, 0.06], [0.02, 0.25, 0.03], [0.05, 0.05, 0.20]], dtype=torch.float64)
FIRST = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)  # the clean token 0 of three


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(found: Tensor, *wanted: float) -> None:
    torch.testing.assert_close(found, numbers(*wanted).reshape(found.shape), atol=5e-9, rtol=0)


# equations


def test_concentrations_of_normalised_variance() -> None:
    close(NU(numbers(0.5, 0.9, 1.0)), 1.5, 0.73913043, 0.33333333)
    assert NU.largest == pytest.approx(1.5)
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    for nu in (NU, Normalised(0.5, 0.5), Normalised(0.2, 0.5, 0.0)):
        assert float(nu(t).max()) == pytest.approx(nu.largest)
        assert parse(spell(nu)) == nu
    # the total variance of the state is its share nu of the largest there could be
    p = 0.7 * FIRST + 0.1
    c = float(NU(numbers(0.9)))
    total = float((p * (1 - p)).sum()) / (c + 1)
    assert total == pytest.approx(2 / 3 * (1 - 0.7**2) * 0.575)
    for wrong in ((0.0, 0.5), (0.5, 1.0), (0.5, 0.5, 1.0)):
        with pytest.raises(ValueError):
            Normalised(*wrong)


def test_parameters_of_one_step() -> None:
    """c_t = 4 / (1 - alpha_t) and c = 1, from t = .7 to .4, and the constant-linear schedule from .9 to .7."""
    step = churn_step(FIRST, 0.6, 0.3, 4 / 0.4, 4 / 0.7, 0.15)
    close(step.rho, 0.85)
    close(torch.stack([step.kept, step.added]), 4.85714286, 5.14285714)
    close(step.fresh, 4.74285714, 0.2, 0.2)
    step = churn_step(FIRST, 0.6, 0.3, 1.0, 1.0, 0.2)
    close(step.rho, 0.45714286)
    close(torch.stack([step.kept, step.added]), 0.45714286, 0.54285714)
    close(step.fresh, 0.48952381, 0.02666667, 0.02666667)
    close(churn_step(FIRST, 0.6, 0.3, 1.0, 1.0, 0.0).fresh, 0.42857143, 0, 0)
    c_t, c_s = NU(numbers(0.9, 0.7))
    step = churn_step(FIRST, 0.3, 0.1, c_s, c_t, 0.2)
    close(step.rho, 0.8)
    close(torch.stack([step.kept, step.added]), 0.59130435, 0.90869565)
    close(step.fresh, 0.56347826, 0.17260870, 0.17260870)
    with pytest.raises(ValueError, match="churn"):
        churn_step(FIRST, 0.6, 0.3, 1.0, 1.0, 1.5)


def test_posterior_is_bayes_rule_with_dirichlet_densities() -> None:
    x_hat, w = numbers(0.5, 0.3, 0.2), numbers(0.2, 0.5, 0.3)
    close(simplex_posterior(x_hat, w.log(), 0.6, 1.0), 0.39217423, 0.40775032, 0.20007545)
    for pi in (torch.full((3,), 1 / 3, dtype=torch.float64), numbers(0.6, 0.1, 0.3)):
        for alpha, c in ((0.6, 1.0), (0.05, 0.4), (0.95, 4.0)):
            laws = [
                torch.distributions.Dirichlet(c * (alpha * torch.eye(3).double()[k] + (1 - alpha) * pi))
                for k in range(3)
            ]
            bayes = x_hat.log() + torch.stack([law.log_prob(w) for law in laws])
            torch.testing.assert_close(
                simplex_posterior(x_hat, w.log(), alpha, c, pi), torch.softmax(bayes, -1)
            )


# the law of a step

COUNT = 20_000


def dirichlet_p_values(w: Tensor, beta: Tensor, name: str) -> dict[str, float]:
    """Kolmogorov-Smirnov distances of each coordinate (n, K) to its beta law."""
    rest = beta.sum() - beta
    return {
        f"{name}, {k}": float(
            stats.kstest(w[:, k].numpy(), stats.beta(float(beta[k]), float(rest[k])).cdf).pvalue
        )
        for k in range(len(beta))
    }


@pytest.mark.parametrize("concentration", [Constant(1.0), NU, Constant(4.0)], ids=["1", "nu", "4"])
def test_every_churn_keeps_the_law_of_the_state(concentration: Concentration) -> None:
    """P_t ~ Dir(beta_t(x)) goes to P_s ~ Dir(beta_s(x)): means, variances and the whole law of each coordinate."""
    process = SimplexProcess(Linear(), Prior(3), concentration)
    x = torch.zeros(COUNT, 1, dtype=torch.long)
    p_values = {}
    for t, s in ((0.9, 0.7), (0.7, 0.4)):
        time, earlier = torch.tensor(t, dtype=torch.float64), torch.tensor(s, dtype=torch.float64)
        keys = Keys.from_seeds(range(COUNT)).stream(str((t, s)))
        old = process.corrupt(x, time, keys.stream("old"))
        assert isinstance(old, Dense)
        c = float(process.c(earlier))
        beta = c * ((1 - s) * FIRST + s / 3)
        mean = beta / c
        kept = []
        for kappa in (0.0, 0.3, 1.0):
            new = process.churn(
                LogDense(old.w.log()), x, time, earlier, kappa, keys.stream("new", int(10 * kappa))
            )
            w = new.log_w.exp()[:, 0]
            torch.testing.assert_close(w.sum(-1), torch.ones(COUNT).double())
            p_values |= dirichlet_p_values(w, beta, f"{t} to {s}, kappa {kappa}")
            variance = mean * (1 - mean) / (c + 1)
            assert ((w.mean(0) - mean).abs() < 5 * (variance / COUNT).sqrt()).all()
            assert ((w.var(0) / variance - 1).abs() < 0.06).all()
            kept.append(np.corrcoef(w[:, 0].numpy(), old.w[:, 0, 0].numpy())[0, 1])
        # churn is what it says: the more of it there is, the less of the old state is left
        assert kept[0] > kept[1] + 0.05 > 0.15 and abs(kept[2]) < 0.035
    accept(p_values)


def test_moments_of_a_step_from_a_known_state() -> None:
    """c_t = 4 / (1 - alpha_t) from t = .7 to .4: at kappa 0 the state is kept whole, W P_t + (1 - W) e_x."""
    log_w = numbers(0.2, 0.5, 0.3).log().expand(COUNT, 1, 3)
    keys = Keys.from_seeds(range(COUNT))
    step = churn_step(FIRST.expand(COUNT, 1, 3), 0.6, 0.3, 4 / 0.4, 4 / 0.7, 0.0)
    w = draw_churn(log_w, step, keys).exp()[:, 0]
    torch.testing.assert_close(w.mean(0), numbers(0.54285714, 0.28571429, 0.17142857), atol=0.003, rtol=0)
    torch.testing.assert_close(w[:, 1] / w[:, 2], torch.full((COUNT,), 0.5 / 0.3, dtype=torch.float64))
    # from the law at t, with kappa .15, to the law at s
    beta = 4 / 0.7 * (0.3 * FIRST + 0.7 / 3)
    old = torch.log_softmax(keys.stream("old").log_gamma(beta.expand(COUNT, 1, 3)), -1)
    step = churn_step(FIRST.expand(COUNT, 1, 3), 0.6, 0.3, 4 / 0.4, 4 / 0.7, 0.15)
    w = draw_churn(old, step, keys.stream("new")).exp()[:, 0]
    torch.testing.assert_close(w.mean(0), numbers(0.73333, 0.13333, 0.13333), atol=0.004, rtol=0)
    assert float(w[:, 0].var()) == pytest.approx(0.01778, rel=0.05)


def test_sticks_and_vectors_have_the_law_of_the_process() -> None:
    """Over 90 categories the state is atoms; coordinates added up over classes are Dirichlet again."""
    t, x = torch.tensor(0.6, dtype=torch.float64), torch.zeros(COUNT, 1, dtype=torch.long)
    c = float(NU(t))
    beta = c * (0.4 * FIRST + 0.6 / 3)
    p_values = {}
    for size in (3, 90):
        w = SimplexProcess(Linear(), Prior(size), NU).corrupt(
            x, t, Keys.from_seeds(range(COUNT)).stream(str(size))
        )
        assert isinstance(w, Atoms if size == 90 else Dense)
        classes = w.dense(size).w[:, 0].reshape(COUNT, -1, 3).sum(1)
        p_values |= dirichlet_p_values(classes, beta, str(size))
    accept(p_values)


def test_the_likeliest_category_adds_up_its_atoms() -> None:
    w = Atoms(torch.tensor([[[4, 1, 4, 2]]]), torch.tensor([[[0.3, 0.4, 0.2, 0.1]]]))
    assert likeliest(w).tolist() == [[4]] == likeliest(w.dense(5)).tolist()
    assert likeliest(LogDense(w.dense(5).w.log())).tolist() == [[4]]


# chains


@dataclass(frozen=True)
class ExactPosterior:
    """p(x_i | P) for the law of the problem, over `copies` ids of each category; reads what an SDM network reads."""

    concentration: Concentration = NU
    copies: int = 1
    vocab_size: int = 3

    def __call__(self, w: Any, t: Tensor) -> Tensor:
        dense = w if isinstance(w, Tensor) else w.dense(3 * self.copies).w
        classes = dense.double().unflatten(-1, (self.copies, 3)).sum(-2)
        power = self.concentration(t.double()) * (1 - t.double())
        log_evidence = power[:, None, None] * classes.log()
        # impossible categories, and times without evidence
        evidence = torch.where(power[:, None, None] > 0, log_evidence, 0.0).exp()
        others = torch.stack([evidence[:, 1] @ LAW.T, evidence[:, 0] @ LAW], dim=1)
        return (others * evidence).log().repeat(1, 1, self.copies)


def chain(kappa: float, num_steps: int, count: int, copies: int = 1, **options: Any) -> Tensor:
    process = SimplexProcess(Linear(), Prior(3 * copies), NU)
    drawn = [
        sample(
            ExactPosterior(NU, copies), (20_000, 2), sampler=SimplexChurn(kappa), process=process, num_steps=num_steps,
            vocab_size=3 * copies, seeds=range(start, start + 20_000), **options,
        )
        for start in range(0, count, 20_000)
    ]  # fmt: skip
    assert all(one.nfe == num_steps for one in drawn)
    return torch.cat([one.tokens for one in drawn])


PUBLISHED = {
    (0.0, 4): 0.099,
    (0.2, 4): 0.103,
    (1.0, 4): 0.126,
    (0.0, 16): 0.022,
    (0.2, 16): 0.026,
    (1.0, 16): 0.051,
}


@pytest.mark.parametrize(("kappa", "num_steps"), PUBLISHED)
def test_distance_of_the_chain_with_the_exact_posterior(kappa: float, num_steps: int) -> None:
    """Total variation to the data after 4 and 16 steps, measured once with 60,000 draws of another implementation."""
    law = toy.law(chain(kappa, num_steps, 60_000)).reshape(3, 3) / 60_000
    assert total_variation(law, LAW) == pytest.approx(PUBLISHED[kappa, num_steps], abs=0.009)


@pytest.mark.slow
def test_the_chain_tends_to_the_data() -> None:
    for kappa, far in ((0.0, 0.02), (0.2, 0.025), (1.0, 0.032)):
        assert total_variation(toy.law(chain(kappa, 64, 60_000)).reshape(3, 3) / 60_000, LAW) < far


def test_sticks_make_the_same_chain() -> None:
    law = toy.law(chain(1.0, 4, 20_000, copies=25) % 3).reshape(3, 3) / 20_000
    assert total_variation(law, LAW) == pytest.approx(PUBLISHED[1.0, 4], abs=0.015)


def test_without_concentration_it_predicts_and_noises_again() -> None:
    """c -> 0 at kappa 1 is Psi at kappa 0: with the network's posterior, drawn and noised to the next time."""
    count, num_steps = 60_000, 4
    schedule = Linear()
    exact = torch.full((3, 3), 1 / 9, dtype=torch.float64)
    for n in range(num_steps):
        t, s = (torch.tensor([1 - i / num_steps], dtype=torch.float64) for i in (n, n + 1))
        q = torch.softmax(toy.Uniform(schedule, leave_one_out=False)(toy.states(), t.expand(9)), -1)
        q = float(1 - s) * q + float(s) / 3
        exact = torch.einsum("n,ni,nj->ij", exact.flatten(), q[:, 0], q[:, 1])
    process = SimplexProcess(schedule, Prior(3), Constant(1e-6), "argmax")
    common: dict[str, Any] = {"num_steps": num_steps, "vocab_size": 3, "seeds": range(count)}
    posterior = toy.Uniform(schedule, leave_one_out=False)
    ours = sample(posterior, (count, 2), sampler=SimplexChurn(1.0), process=process, **common)
    psi = sample(toy.Uniform(schedule), (count, 2), sampler=Psi(Fixed(0.0)), schedule=schedule, **common)
    accept(
        {name: chi_square(toy.law(one.tokens).numpy(), exact) for name, one in (("sdm", ours), ("psi", psi))}
    )


@pytest.mark.parametrize("kappa", [0.0, 0.4, 1.0])
def test_given_tokens_stay_on_their_vertex(kappa: float) -> None:
    seen: list[Tensor] = []

    class Watched(ExactPosterior):
        def __call__(self, w: Any, t: Tensor) -> Tensor:
            seen.append(w)
            return super().__call__(w, t)

    tokens, given = torch.tensor([[2, 0]]).expand(500, 2), torch.tensor([[True, False]]).expand(500, 2)
    drawn = sample(
        Watched(), (500, 2), sampler=SimplexChurn(kappa), process=SimplexProcess(Linear(), Prior(3), NU),
        num_steps=8, vocab_size=3, seeds=range(500), tokens=tokens, given=given, trajectory=True,
    )  # fmt: skip
    assert drawn.trajectory is not None and (drawn.trajectory[:, :, 0] == 2).all()
    assert len(seen) == 8 and all((w[:, 0] == torch.tensor([0.0, 0.0, 1.0])).all() for w in seen)
    # given x_1 = 2 the other token follows the conditional law
    found = torch.bincount(drawn.tokens[:, 1], minlength=3) / 500
    torch.testing.assert_close(found.double(), LAW[2] / LAW[2].sum(), atol=0.09, rtol=0)


def test_a_sample_does_not_depend_on_its_companions() -> None:
    for kappa in (0.3, 1.0):
        process = SimplexProcess(Linear(), Prior(3), NU)
        options: dict[str, Any] = {"sampler": SimplexChurn(kappa), "process": process, "vocab_size": 3}
        together = sample(ExactPosterior(), (6, 2), num_steps=5, seeds=range(6), **options).tokens
        alone = [sample(ExactPosterior(), (1, 2), num_steps=5, seeds=[n], **options).tokens for n in range(6)]
        assert torch.equal(together, torch.cat(alone))


# the method


class LeaveOneOut(ExactPosterior):
    """The prediction from the other position alone."""

    def __call__(self, w: Any, t: Tensor) -> Tensor:
        own = (self.concentration(t.double()) * (1 - t.double()))[:, None, None] * w.double().log()
        return super().__call__(w, t) - own.clamp(min=-1e6)


def test_cross_entropy_prefers_the_posterior_to_the_leave_one_out_prediction() -> None:
    concentration = Normalised(0.2, 0.2)
    method = SDM(schedule=Linear(), concentration=concentration)
    generator = torch.Generator().manual_seed(0)
    batch = Batch.of(toy.states()[torch.multinomial(LAW.flatten(), 4000, True, generator=generator)])
    context = StepContext(Keys.from_seeds(range(4000)), stratified(4000, 0, 0))
    single = sum(-float((side * side.log()).sum()) for side in (LAW.sum(0), LAW.sum(1))) / 2
    values = [
        float(method.loss(Network(kind(concentration), 3), batch, context).mean())
        for kind in (ExactPosterior, LeaveOneOut)
    ]
    assert values[0] < values[1] - 0.1 < single - 0.1
    assert method.likelihood_kind() == "none"


@pytest.mark.parametrize("input", ["expectation", "argmax"])
def test_networks_read_what_the_method_says(input: str) -> None:
    method = SDM(input=input)
    denoiser = method.build(5, 6, Architecture(width=16, depth=1, heads=2))
    seen: list[Any] = []
    denoiser.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    tokens = Keys.from_seeds(range(30)).randint(5, 6)
    given = torch.arange(6).expand(30, 6) < 3
    context = StepContext(Keys.from_seeds(range(30)), stratified(30, 0, 0))
    loss = method.loss(denoiser, Batch.of(tokens, given), context)
    assert (loss.per_token[given] == 0).all() and not loss.scored[given].any()
    sample(
        denoiser, (30, 6), sampler=method.sampler(kappa=0.5), process=method.process(denoiser), num_steps=3,
        vocab_size=5, seeds=range(30), tokens=tokens, given=given,
    )  # fmt: skip
    for state in seen:
        ids = state.argmax(-1) if input == "expectation" else state
        assert state.is_floating_point() == (input == "expectation")
        assert torch.equal(ids[given], tokens[given])


def test_samplers_that_show_another_state_are_refused() -> None:
    """A sampler takes the concentration from the method's own process, so the two cannot differ."""
    method = SDM()
    method.check_sampler(SimplexChurn(0.3))
    for other in (SimplaxSampler(eta=NU, form="atoms", reads_w=True), Psi()):
        with pytest.raises(ValueError, match="undoes"):
            method.check_sampler(other)
    with pytest.raises(ValueError, match="undoes points of the simplex"):
        SimplaxMethod(concentration=1.5, form="atoms", reads_w=True).check_sampler(SimplexChurn())
    with pytest.raises(ValueError, match="pass process=SimplexProcess"):
        sample(ExactPosterior(), (1, 2), sampler=SimplexChurn(), schedule=Linear(), num_steps=1, vocab_size=3)


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in (PerToken(2.0), Vanishing(1.0), 0.0):
        with pytest.raises(ValueError):
            SDM(concentration=wrong)
    with pytest.raises(ValueError, match="expectation or argmax"):
        SDM(input="median")
    with pytest.raises(ValueError, match="kappa"):
        SimplexChurn(1.2)


@pytest.mark.parametrize("input", ["expectation", "argmax"])
def test_it_learns_in_seconds(input: str) -> None:
    """Samples of a chain of known law look like the data, for every churn."""
    chain, length = MarkovChain(5, sharpness=2.5, seed=48), 8
    method = SDM(input=input)
    denoiser = learn_markov.train(method, MarkovSource(chain, length), 300, 32)
    truth, worst = (
        -float(chain.log_prob(x).mean()) / length
        for x in (
            MarkovSource(chain, length, stream=1).batch(torch.arange(400)).tokens,
            Keys.from_seeds(range(400)).randint(5, length),
        )
    )
    for kappa in (0.0, 0.5, 1.0):
        drawn = sample(
            denoiser, (200, length), sampler=method.sampler(kappa=kappa), process=method.process(denoiser),
            num_steps=24, vocab_size=5, seeds=range(200),
        )  # fmt: skip
        ours = -float(chain.log_prob(drawn.tokens).mean()) / length
        assert ours < truth + 0.35 * (worst - truth), (kappa, ours, truth, worst)


@pytest.mark.training
def test_it_solves_small_sudokus(tmp_path: Path) -> None:
    """By its recipe in minutes: held-out 4x4 puzzles, with and without churn."""
    from simplax import recipes
    from simplax.pretrained import from_pretrained
    from simplax.recipes.launch import launch

    launch(recipes.get("sudoku4-sdm"), tmp_path / "run", device="cpu", quiet=True)
    model = from_pretrained(tmp_path / "run", device="cpu")
    batch = model.config.task.held_out_batch(256)
    for kappa, least in ((0.0, 0.85), (1.0, 0.95)):
        drawn = model.sample(
            256, seeds=0, tokens=batch.tokens, given=batch.given, sampler=SimplexChurn(kappa)
        )
        assert float((drawn.tokens == batch.tokens).all(-1).double().mean()) > least
