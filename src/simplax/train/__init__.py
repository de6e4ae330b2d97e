"""The one training loop, for every method, on one process or many."""

from simplax.train.hooks import Hook, SampleHook
from simplax.train.loop import train
from simplax.train.optimizer import Optimizer
from simplax.train.run import Run
from simplax.train.session import Result
from simplax.typing import Source

__all__ = ["Hook", "Optimizer", "Result", "Run", "SampleHook", "Source", "train"]
