"""Where numbers and samples go besides `metrics.jsonl`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from torch import nn

from simplax.errors import UserError
from simplax.io.files import write_text

_INSTALL = 'run `pip install "simplax[track]"`.'


@runtime_checkable
class Hook(Protocol):
    """Receives every row of metrics, in the first process only."""

    def log(self, step: int, values: dict[str, float]) -> None: ...


@runtime_checkable
class SampleHook(Protocol):
    """Called every `sample_every` steps with the averaged weights, in evaluation mode, in every process."""

    def sample(self, step: int, denoiser: nn.Module) -> None: ...


class TensorBoard:
    """Curves in TensorBoard's format; needs the package `tensorboard`. Files are opened at the first row."""

    def __init__(self, directory: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError(f"TensorBoard is not installed: {_INSTALL}") from error
        self._open: Any = partial(SummaryWriter, str(directory))
        self._writer: Any = None

    def log(self, step: int, values: dict[str, float]) -> None:
        if self._writer is None:
            self._writer = self._open(purge_step=step)  # a resumed run writes its last rows again
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


class WandB:
    """Curves at Weights & Biases; needs the package `wandb`. The run there begins with the first row.

    `id_file` keeps its identity, so that a run taken up again goes on there too.
    """

    def __init__(
        self, project: str, name: str | None = None, id_file: Path | None = None, **options: Any
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError(f"Weights & Biases is not installed: {_INSTALL}") from error
        self._begin: Any = partial(wandb.init, project=project, name=name, **options)
        self._id_file = id_file
        self._run: Any = None

    def log(self, step: int, values: dict[str, float]) -> None:
        if self._run is None:
            known = {} if self._id_file is None else {"id": _identity(self._id_file), "resume": "allow"}
            self._run = self._begin(**known)
        self._run.log(values, step=step)


def _identity(file: Path) -> str:
    """What is written in `file`, made up the first time."""
    if not file.exists():
        write_text(file, uuid4().hex + "\n")
    return file.read_text(encoding="utf-8").strip()
