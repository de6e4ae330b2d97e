"""Training networks that carry something from call to call: from the weights of others, resumed, split, averaged."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from simplax import recipes
from simplax.config.run import RunConfig
from simplax.methods import MDLM, UDLM, Method, Simplax
from simplax.nn.network import Network, fusing
from simplax.pretrained import Model, from_pretrained
from simplax.recipes.launch import build, launch
from simplax.train import train
from test_fused_methods import LENGTH, both, masked_batch
from test_fused_methods import network as small_network
from test_train_toy import assert_same_run, newest

CARRIES = ["probabilities", "hidden"]


def short(name: str, steps: int = 4, carry: str = "none", **method: Any) -> RunConfig:
    config = recipes.smoke(recipes.get(name))
    optimizer = replace(config.run.optimizer, learning_rate=0.02, warmup=1)
    run = replace(config.run, steps=steps, optimizer=optimizer, ema=0.5, log_every=1, save_every=2)
    return replace(
        config,
        run=replace(run, validate_every=0, sample_every=0),
        architecture=replace(config.architecture, carry=carry),
        method=replace(config.method, **method),
    )


def reader(denoiser: nn.Module) -> Tensor:
    """What a network reads its carry through."""
    (found,) = (
        value
        for name, value in denoiser.state_dict().items()
        if name.endswith(("self_condition_map.weight", "carry_norm.weight"))
    )
    return found


@pytest.fixture(scope="module", params=["toy-udlm", "toy-candi"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A run without a carry, of a bare trunk and of a trunk inside another network."""
    directory = tmp_path_factory.mktemp("plain") / "run"
    launch(short(request.param), directory, quiet=True)
    return request.param, directory


@pytest.mark.parametrize("carry", CARRIES)
def test_a_carry_may_be_trained_from_weights_that_have_none(
    plain: tuple[str, Path], tmp_path: Path, carry: str
) -> None:
    """Until the first update it computes what they compute, in every call of a chain, to the last bit."""
    name, source = plain
    start = short(name, steps=1, carry=carry)
    still = replace(start.run, seed=9, optimizer=replace(start.run.optimizer, warmup=5))  # rate 0 at first
    launch(replace(start, run=still), tmp_path / "start", init_from=source, quiet=True)
    before, after = (
        from_pretrained(run, weights="raw", device="cpu") for run in (source, tmp_path / "start")
    )
    known = before.denoiser.state_dict()
    assert all(torch.equal(after.denoiser.state_dict()[key], value) for key, value in known.items())
    one, two = (every_call(model) for model in (before, after))
    assert len(one) >= 4 and all(torch.equal(a, b) for (a, _), (b, _) in zip(one, two, strict=True))
    assert not any(shown for _, shown in one)
    assert [shown for _, shown in two] == [False] + [True] * (len(two) - 1)

    # and it learns to read what it carries
    moving = replace(short(name, steps=3, carry=carry), run=replace(short(name, 3).run, seed=9))
    launch(moving, tmp_path / "moved", init_from=source, quiet=True)
    for weights in ("raw", "ema"):
        moved = from_pretrained(tmp_path / "moved", weights=weights, device="cpu")  # type: ignore[arg-type]
        assert reader(moved.denoiser).any()


def every_call(model: Model) -> list[tuple[Tensor, bool]]:
    """The logits of every call along a chain, and whether it was shown what another left."""
    made: list[tuple[Tensor, bool]] = []

    def note(module: nn.Module, arguments: Any, keywords: Any, result: Any) -> None:
        carried = [keywords.get("carry"), keywords.get("self_condition")]
        logits = result[0] if isinstance(result, tuple) else result
        made.append((logits, any(each is not None and bool(each.any()) for each in carried)))

    model.denoiser.register_forward_hook(note, with_kwargs=True)
    model.sample(6, seeds=0, num_steps=4)
    return made


FUSED: dict[str, tuple[Method, str]] = {
    "udlm, hidden": (UDLM(), "hidden"),
    "udlm, probabilities": (UDLM(), "probabilities"),
    "mdlm, hidden": (MDLM(), "hidden"),
    "mdlm, probabilities": (MDLM(), "probabilities"),
    "simplax, hidden": (Simplax(), "hidden"),
    "simplax, probabilities": (Simplax(form="atoms", reads_w=True), "probabilities"),
    "udlm, rollout": (UDLM(rollout=3), "hidden"),
    "simplax, rollout through two calls": (Simplax(rollout=3, gradient_calls=2), "hidden"),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_losses_equal_the_plain_ones_with_a_carry(name: str) -> None:
    """In value and in all gradients, those of what reads the carry among them."""
    method, carry = FUSED[name]
    denoiser = small_network(method, carry=carry)
    batch, context = masked_batch()
    fused, plain = both(denoiser, lambda: method.loss(denoiser, batch, context))
    torch.testing.assert_close(
        fused[0].per_token, plain[0].per_token, rtol=2e-5, atol=1e-5, check_dtype=False
    )
    assert not fused[0].per_token[~fused[0].scored].any()
    for (key, _), ours, theirs in zip(denoiser.named_parameters(), fused[1], plain[1]):
        assert float((ours - theirs).norm()) <= 1e-3 * float(theirs.norm()) + 1e-5, key
    gradients = dict(zip((key for key, _ in denoiser.named_parameters()), fused[1]))
    read = "carry_norm.weight" if carry == "hidden" else "self_condition_map.weight"
    assert gradients[read].any()


class Sizes(TorchDispatchMode):
    """The largest tensor made before the network is called for the second time."""

    def __init__(self, denoiser: nn.Module) -> None:
        super().__init__()
        self.largest, self.calls = 0, 0
        denoiser.register_forward_pre_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.calls += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.calls == 1 and isinstance(out, Tensor) and not func.is_view:
            self.largest = max(self.largest, out.numel())
        return out


@pytest.mark.parametrize("method", [UDLM(), MDLM(), Simplax(form="atoms", reads_w=True)])
def test_the_first_call_for_a_hidden_state_makes_nothing_of_the_size_of_the_vocabulary(
    method: Method,
) -> None:
    """Not even where the loss is not fused; a first call for probabilities has to."""
    size = 5_000
    batch, context = masked_batch(size)
    largest = {}
    for carry in CARRIES:
        denoiser = small_network(method, size, carry)
        with fusing(None), Sizes(denoiser) as made:
            method.loss(denoiser, batch, context)
        assert made.calls == 2
        largest[carry] = made.largest
    assert largest["hidden"] < size < LENGTH * size <= largest["probabilities"]


ROLLOUT: dict[str, Any] = {"carry": "hidden", "rollout": 3, "gradient_calls": 2}


def test_a_rollout_resumes_bit_for_bit(tmp_path: Path) -> None:
    launch(short("toy-udlm", 6, **ROLLOUT), tmp_path / "whole", quiet=True)
    launch(short("toy-udlm", 2, **ROLLOUT), tmp_path / "cut", quiet=True)
    launch(short("toy-udlm", 6, **ROLLOUT), tmp_path / "cut", quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    assert newest(tmp_path / "cut").weights["carry_norm.weight"].any()


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_two_processes_roll_out_as_one_does(tmp_path: Path, sharding: str) -> None:
    flags = {"run.steps": 4, "run.batch-size": 16, "run.log-every": 1, "run.save-every": 4}
    flags |= {"run.validate-every": 0, "run.sharding": sharding, "architecture.carry": "hidden"}
    flags |= {"method.rollout": 3, "method.gradient-calls": 2}
    several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    losses = []
    for name, start in (("one", []), ("two", several)):
        command = [sys.executable, *start, "-m", "simplax", *(["--"] if start else []), "train", "toy-udlm"]
        command += [part for flag, value in flags.items() for part in (f"--{flag}", str(value))]
        command += ["--out", str(tmp_path / name), "--device", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        losses.append([row["loss"] for row in rows if "loss" in row])
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    one, two = (newest(tmp_path / name) for name in ("one", "two"))
    for mine, its in ((one.weights, two.weights), (one.ema, two.ema)):
        for key, value in mine.items():
            torch.testing.assert_close(its[key], value, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("carry", CARRIES)
def test_carry_and_prediction_are_both_those_of_the_averaged_weights(tmp_path: Path, carry: str) -> None:
    """What a validation sees is the network that is stored as the average, and no part of the last weights."""
    config = short("toy-udlm", 4, carry)
    tokens = config.task.held_out_batch(8).tokens
    seen: list[Tensor] = []

    def measure(denoiser: nn.Module) -> dict[str, float]:
        seen.append(second_logits(denoiser, tokens))
        return {"n": len(seen)}

    run = replace(config.run, validate_every=4)
    train(config.method, build(config), config.task.train(), run, tmp_path, metric=measure, device="cpu",
          quiet=True)  # fmt: skip
    stored = newest(tmp_path)
    results = {}
    for mixed in ("ema", "weights", "ema read with the last"):
        state = dict(stored.weights if mixed == "weights" else stored.ema)
        if mixed.endswith("last"):
            read = "carry_norm.weight" if carry == "hidden" else "self_condition_map.weight"
            state[read] = stored.weights[read]
        denoiser = build(config)
        denoiser.load_state_dict(state)
        results[mixed] = second_logits(denoiser, tokens)
    assert torch.equal(seen[0], results.pop("ema"))
    assert not any(torch.equal(seen[0], other) for other in results.values())


def second_logits(denoiser: nn.Module, tokens: Tensor) -> Tensor:
    """A call that reads what a first call on the same tokens left."""
    network, t = Network.of(denoiser.eval()), torch.full((len(tokens),), 0.5)
    with torch.no_grad():
        _, carried = network.predict(tokens, t)
        return network.predict(tokens, t, carried)[0].logits
