"""Where the strings that are measured come from: a file, or a model."""

from __future__ import annotations

from pathlib import Path

from simplax.data.text.compressed import check_beginning, expand, naming, temporary_folder
from simplax.errors import UserError
from simplax.pretrained.model import Model
from simplax.tasks import MoleculesTask


def read_strings(path: Path) -> list[str]:
    """Every line of a file is one string as it stands, an empty line an empty string; only line breaks are removed.

    The file may be compressed, as its name says.
    """
    plain = expand(path, temporary_folder())
    with naming((plain,), (path,)):
        check_beginning(plain)
    try:
        text = plain.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}): save it in that encoding.") from None
    if not text:
        raise UserError(f"{path} is empty: put one string on each line.")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def molecules_task(model: Model) -> MoleculesTask:
    """The model's task, which must be molecules."""
    if not isinstance(model.config.task, MoleculesTask):
        raise UserError(f"the model {model.config.name!r} was not trained on molecules: name one that was.")
    return model.config.task
