"""Where numbers and samples go besides `metrics.jsonl`."""

from __future__ import annotations

import json
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


@runtime_checkable
class BeginHook(Protocol):
    """Called once, in the first process, with what is run: the configuration and the record of how it was started."""

    def begin(self, config: dict[str, Any], manifest: dict[str, Any]) -> None: ...


@runtime_checkable
class TextHook(Protocol):
    """Receives the samples that are kept while training, as people read them, in the first process only."""

    def texts(self, step: int, texts: list[str]) -> None: ...


class TensorBoard:
    """Curves, configuration and sample texts in TensorBoard's format; needs the package `tensorboard`.

    Files are opened at the first row.
    """

    def __init__(self, directory: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError(f"TensorBoard is not installed: {_INSTALL}") from error
        self._open: Any = partial(SummaryWriter, str(directory))
        self._writer: Any = None
        self._told: dict[str, Any] = {}

    def begin(self, config: dict[str, Any], manifest: dict[str, Any]) -> None:
        self._told = {"config": config, "manifest": manifest}

    def _at(self, step: int) -> Any:
        if self._writer is None:
            self._writer = self._open(purge_step=step)  # a resumed run writes its last rows again
            for name, value in self._told.items():
                self._writer.add_text(name, _as_code(value), step)
        return self._writer

    def log(self, step: int, values: dict[str, float]) -> None:
        writer = self._at(step)
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def texts(self, step: int, texts: list[str]) -> None:
        writer = self._at(step)
        for number, text in enumerate(texts):
            writer.add_text(f"sample {number}", _as_code(text), step)
        writer.flush()


class WandB:
    """Curves, configuration and sample texts at Weights & Biases; needs the package `wandb`.

    The run there begins with the first row.

    `id_file` keeps its identity, so that a resumed run continues there too.
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
        self._told: dict[str, Any] = {}
        self._wandb: Any = wandb

    def begin(self, config: dict[str, Any], manifest: dict[str, Any]) -> None:
        # a run that goes on may have other operations than it began with
        self._told = {**config, "manifest": manifest}

    def _at(self) -> Any:
        if self._run is None:
            known = {} if self._id_file is None else {"id": _identity(self._id_file), "resume": "allow"}
            self._run = self._begin(**known)
            if self._told:
                self._run.config.update(self._told, allow_val_change=True)
        return self._run

    def log(self, step: int, values: dict[str, float]) -> None:
        self._at().log(values, step=step)

    def texts(self, step: int, texts: list[str]) -> None:
        rows = [[step, number, text] for number, text in enumerate(texts)]
        self._at().log(
            {"samples": self._wandb.Table(columns=["step", "sample", "text"], data=rows)}, step=step
        )


def _as_code(value: Any) -> str:
    """Text that is shown as it is, with its line breaks."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(f"    {line}\n" for line in text.splitlines())


def _identity(file: Path) -> str:
    """What is written in `file`, made up the first time."""
    if not file.exists():
        write_text(file, uuid4().hex + "\n")
    return file.read_text(encoding="utf-8").strip()
