"""Where the strings that are measured come from: a file, or a model."""

from __future__ import annotations

from pathlib import Path

from simplax.errors import UserError
from simplax.pretrained.model import Model
from simplax.tasks import MoleculesTask


def read_strings(path: Path) -> list[str]:
    """Every line of a file is one string as it stands, an empty line an empty string; only line breaks are removed."""
    text = path.read_bytes().decode("utf-8-sig")
    if not text:
        raise UserError(f"{path} is empty: put one string on each line.")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def molecules_task(model: Model) -> MoleculesTask:
    """The model's task, which must be molecules."""
    if not isinstance(model.config.task, MoleculesTask):
        raise UserError(f"the model {model.config.name!r} was not trained on molecules: name one that was.")
    return model.config.task
