"""Where numbers and samples go besides `metrics.jsonl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import nn

from simplax.errors import UserError


@runtime_checkable
class Hook(Protocol):
    """Receives every row of metrics, in the first process only."""

    def log(self, step: int, values: dict[str, float]) -> None: ...


@runtime_checkable
class SampleHook(Protocol):
    """Called every `sample_every` steps with the averaged weights, in evaluation mode, in every process."""

    def sample(self, step: int, denoiser: nn.Module) -> None: ...


class TensorBoard:
    """Curves in TensorBoard's format; needs the package `tensorboard`."""

    def __init__(self, directory: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError("TensorBoard is not installed: run `pip install tensorboard`.") from error
        self._writer: Any = SummaryWriter(str(directory))

    def log(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


class WandB:
    """Curves at Weights & Biases; needs the package `wandb`."""

    def __init__(self, project: str, name: str | None = None, **options: Any) -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError("Weights & Biases is not installed: run `pip install wandb`.") from error
        self._run: Any = wandb.init(project=project, name=name, resume="allow", **options)

    def log(self, step: int, values: dict[str, float]) -> None:
        self._run.log(values, step=step)
