"""Text runs: a presidential corpus on two cores, and the paper's OpenWebText study at its own scale."""

from __future__ import annotations

from dataclasses import replace

from simplax.config.run import RunConfig, SamplingDefaults
from simplax.methods import (
    AR,
    CANDI,
    MDLM,
    SDM,
    UDLM,
    Adaptation,
    Curriculum,
    Duo,
    DuoBase,
    Method,
    SFLMAdaptive,
    Simplax,
)
from simplax.nn import PRESETS, Architecture
from simplax.recipes.continuous import PUBLISHED, SHORT
from simplax.recipes.discrete import TEXT_NU
from simplax.recipes.registry import every_method, recipe
from simplax.tasks import TextTask
from simplax.train import Optimizer, Run

MINI_STEPS = 900
# about 1.3 M parameters that each token passes through; 7.4 M tokens are almost three times the corpus, and one core of
# an x86-64 server makes some 5,000 of them per second
_MINI = Architecture(width=128, depth=4, heads=4)

_SIMPLAX = Simplax(weighting="constant", concentration=0.01)
MINI_METHODS: dict[str, Method] = {
    "simplax-scratch": _SIMPLAX,
    "udlm": UDLM(),
    "mdlm": MDLM(),
    "ar": AR(),
    "duo-base": DuoBase(),
    # half of the run, as published, and the sparse latent: the dense one has a number per token and category
    "duo": Duo(curriculum=Curriculum(end=MINI_STEPS // 2, top_k=8)),
    "sdm": SDM(concentration=TEXT_NU),
    **SHORT,
}


_MUON = Optimizer("muon", learning_rate=2e-3, matrix_learning_rate=0.02, warmup=100, decay="linear")


def _mini(method: Method, steps: int = MINI_STEPS, optimizer: Optimizer = _MUON) -> RunConfig:
    run = Run(steps=steps, batch_size=64, optimizer=optimizer, ema=0.995, validate_every=150, save_every=100)
    # the paper caps the logits of Simplax only
    architecture = replace(_MINI, soft_cap=30.0) if isinstance(method, Simplax) else _MINI
    return RunConfig("", TextTask(), method, architecture, run, SamplingDefaults(num_steps=128))


def _going_on(config: RunConfig) -> RunConfig:
    """The same run as a second phase: other noise and another order of the data than the first began with."""
    assert isinstance(config.task, TextTask)
    return replace(
        config,
        task=replace(config.task, seed=config.task.seed + 1),
        run=replace(config.run, seed=config.run.seed + 1),
    )


_SOTU = "128 tokens of messages of US presidents, BPE of 4,096"


@recipe(
    "text-mini",
    f"{_SOTU}; about 17 minutes as UDLM on two cores without bf16 units",
    every_method(MINI_METHODS, but=["simplax"]),
)
def text_mini(method: Method) -> RunConfig:
    return _mini(method)


# Simplax as in the paper: four fifths of the steps as UDLM, then the rest; the learning rate falls in the second phase
@recipe("text-mini", f"{_SOTU}; phase 1 of Simplax: 720 steps as UDLM", {"udlm-720": UDLM()})
def text_mini_first_phase(method: Method) -> RunConfig:
    return _mini(method, MINI_STEPS * 4 // 5, replace(_MUON, decay="constant"))


@recipe(
    "text-mini",
    f"{_SOTU}; phase 2 of Simplax: 180 steps",
    {"simplax": _SIMPLAX},
    follows="text-mini-udlm-720",
)
def text_mini_second_phase(method: Method) -> RunConfig:
    return _going_on(_mini(method, MINI_STEPS // 5, replace(_MUON, warmup=10)))


OWT = TextTask(corpus="openwebtext-gpt2-1024", sequence_length=1024, categories=50_257)
OWT_METHODS: dict[str, Method] = {
    "udlm": UDLM(),
    "mdlm": MDLM(),
    "ar": AR(),
    "duo-base": DuoBase(),
    "duo": Duo(curriculum=Curriculum(end=500_000, gammas=(-3.55, -1.85))),
    "sdm": SDM(concentration=TEXT_NU),
    **PUBLISHED,
    "candi": CANDI(ranks=(0.05, 0.25)),
    "sflm_adaptive": SFLMAdaptive(truncation=0.121, adaptation=Adaptation(buffer=50 * 512)),
}
_READS_W = replace(_SIMPLAX, form="atoms", reads_w=True)


def _owt(method: Method, steps: int, architecture: Architecture = PRESETS["small"]) -> RunConfig:
    optimizer = Optimizer("adamw", learning_rate=3e-4, warmup=2500)
    run = Run(
        steps=steps, batch_size=512, optimizer=optimizer, ema=0.9999, precision="bfloat16", save_every=2500,
        validate_every=10_000,
    )  # fmt: skip
    if isinstance(method, Simplax):
        architecture = replace(architecture, soft_cap=30.0)
    return RunConfig("", OWT, method, architecture, run, SamplingDefaults(num_steps=1024))


_PAPER = "the paper's OpenWebText: 1,024 GPT-2 tokens, 12 x 768, batch 512"


@recipe("owt", f"{_PAPER}, 1 M steps", every_method(OWT_METHODS, but=["simplax"]))
def owt(method: Method) -> RunConfig:
    return _owt(method, 1_000_000)


@recipe("owt", f"{_PAPER}, phase 1 of Simplax: 800 k steps as UDLM", {"udlm-800k": UDLM()})
def owt_first_phase(method: Method) -> RunConfig:
    return _owt(method, 800_000)


@recipe(
    "owt",
    f"{_PAPER}, phase 2 of Simplax: 200 k steps",
    {"simplax": _SIMPLAX},
    follows="owt-udlm-800k",
)
def owt_second_phase(method: Method) -> RunConfig:
    return _going_on(_owt(method, 200_000))


@recipe("owt", f"{_PAPER}, Simplax without UDLM before it: 1 M steps", {"simplax-scratch": _SIMPLAX})
def owt_scratch(method: Method) -> RunConfig:
    return _owt(method, 1_000_000)


@recipe("owt-50k", f"{_PAPER}, diagnostic of 50 k steps", {"z-input": _SIMPLAX, "w-input": _READS_W})
def owt_diagnostic(method: Method) -> RunConfig:
    return _owt(method, 50_000)


@recipe(
    "owt-50k",
    f"{_PAPER}, diagnostic of 50 k steps, self-conditioning on w_t",
    {"w-input-self-conditioning": _READS_W},
)
def owt_self_conditioning(method: Method) -> RunConfig:
    return _owt(method, 50_000, replace(PRESETS["small"], carry="probabilities"))


@recipe("owt-50k", f"{_PAPER}, diagnostic: the first 40 k of 50 k steps as UDLM", {"udlm-40k": UDLM()})
def owt_short_first_phase(method: Method) -> RunConfig:
    return _owt(method, 40_000)


@recipe(
    "owt-50k",
    f"{_PAPER}, diagnostic: the last 10 k of 50 k steps",
    {"udlm-init": _SIMPLAX},
    follows="owt-50k-udlm-40k",
)
def owt_short_second_phase(method: Method) -> RunConfig:
    return _going_on(_owt(method, 10_000))
