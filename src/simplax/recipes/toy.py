"""Toy runs: a Markov chain whose entropy is known, learned in seconds."""

from __future__ import annotations

from simplax.config.run import RunConfig, SamplingDefaults
from simplax.methods import UDLM, Method, Simplax
from simplax.nn import PRESETS
from simplax.recipes.continuous import SHORT
from simplax.recipes.discrete import discrete
from simplax.recipes.registry import every_method, recipe
from simplax.tasks import ToyTask
from simplax.train import Optimizer, Run

STEPS = 1500


@recipe(
    "toy",
    "a Markov chain of 8 tokens over 5 categories, under a minute on a CPU",
    every_method({"simplax": Simplax(), "udlm": UDLM(), **discrete(STEPS), **SHORT}),
)
def toy(method: Method) -> RunConfig:
    optimizer = Optimizer(learning_rate=2e-3, warmup=100, decay="cosine")
    run = Run(steps=STEPS, batch_size=64, optimizer=optimizer, ema=0.99, validate_every=500, save_every=500)
    return RunConfig("", ToyTask(), method, PRESETS["cpu-nano"], run, SamplingDefaults(num_steps=32))
