"""Every loss, likelihood and sampler step on a device that holds no values, torch's `meta`.

Whatever would mix devices, or wait for a value in order to go on, fails here, as it would fail or stall on a GPU.
(A fake `cuda` device would do the same, but torch builds for CPUs refuse to name it outside a few operations.)
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

from simplax.methods import METHODS, HasLikelihood
from simplax.nn import Architecture, fusing
from simplax.nn.network import Chain
from simplax.random import Keys
from simplax.samplers import Psi, Simplax, SimplexChurn
from simplax.samplers.base import Setting
from simplax.samplers.kappa import Fixed
from simplax.typing import Batch, StepContext

NANO = Architecture(width=16, depth=1, heads=2, cond_dim=8, carry="hidden")
K, L, B = 12, 4, 3


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch has no autocast for devices without values, and precision is not what is tested."""
    monkeypatch.setattr(torch, "autocast", lambda *arguments, **keywords: nullcontext())


def batch_and_context() -> tuple[Batch, StepContext]:
    tokens = torch.empty(B, L, dtype=torch.long, device="meta")
    keys = Keys(torch.empty(B, dtype=torch.long, device="meta"))
    return Batch.of(tokens), StepContext(keys, torch.empty(B, dtype=torch.float64, device="meta"), step=10)


def network(method: Any) -> Any:
    return method.build(K, L, NANO).to("meta")


def elsewhere(*values: Any) -> None:
    for value in values:
        assert value.device.type == "meta", value.device


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_losses_and_likelihoods(name: str, fused: bool) -> None:
    method: Any = METHODS[name]()
    if name == "langflow":
        method = replace(method, likelihood_steps=1)
    with fusing(1 if fused else None):
        denoiser = network(method)
        batch, context = batch_and_context()
        loss = method.loss(denoiser, batch, context)
        elsewhere(loss.per_token)
        loss.per_token.sum().backward()
        elsewhere(method.loss(denoiser, batch, replace(context, training=False)).per_token)
        if isinstance(method, HasLikelihood):
            elsewhere(method.nll(denoiser, batch, context).per_token)
            elsewhere(method.boundary_terms(denoiser, batch, context).per_token)


SAMPLERS: dict[str, tuple[str, Any]] = {
    **{name: (name, None) for name in METHODS},
    "simplax, atoms": ("simplax", Simplax(eta=0.05, form="atoms")),
    "simplax, dense": ("simplax", Simplax(eta=5.0, form="dense")),
    "simplax, likeliest end": ("simplax", Simplax(eta=5.0, last="posterior_argmax")),
    "udlm, psi": ("udlm", Psi(Fixed(0.5), last="posterior")),
    "sdm, little churn": ("sdm", SimplexChurn(0.2)),
    "mdlm, psi": ("mdlm", Psi(Fixed(0.5), last="greedy")),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_sampler_steps(name: str) -> None:
    label, sampler = SAMPLERS[name]
    method: Any = METHODS[label]()
    sampler = sampler or method.sampler()
    with torch.no_grad():
        denoiser = network(method)
        batch, context = batch_and_context()
        setting = Setting(B, L, 4, method.process(denoiser))
        given = torch.empty(B, L, dtype=torch.bool, device="meta")
        chain = Chain(denoiser, K, lambda logits: logits / 0.7, given, None, B)
        times = sampler.grid(sampler.steps_for(L) or 4)
        state = sampler.init(setting, context.keys)
        if label != "ar":  # a prefix is looked at, once and before the first call
            state = sampler.pin(state, batch.tokens, given)
        for t, s in itertools.pairwise(times[:3]):
            state = sampler.step(state, chain, t, s, setting, context.keys)
            elsewhere(sampler.tokens(state))
        state = sampler.finish(state, chain, times[-1], setting, context.keys)
        elsewhere(sampler.tokens(state))
