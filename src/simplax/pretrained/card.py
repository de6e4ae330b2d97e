"""A model's card, written from what is known about it: configuration, manifest and measured results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simplax.config import encode
from simplax.errors import UserError
from simplax.io.files import write_text
from simplax.io.manifest import read
from simplax.pretrained.stored import MANIFEST

if TYPE_CHECKING:
    from simplax.pretrained.model import Model

CARD = "README.md"


def write_card(
    model: Model, folder: Path, name: str, licence: str | None = None, results: Sequence[Path] = ()
) -> Path:
    """Write the card of the model in `folder`, which is called `name` where it is published."""
    write_text(folder / CARD, card(model, folder, name, licence, results))
    return folder / CARD


def card(
    model: Model, folder: Path, name: str, licence: str | None = None, results: Sequence[Path] = ()
) -> str:
    """What data, which method, how it is sampled, and numbers with the commands that gave them."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    config, said = model.config, manifest["model"]
    kind = encode(config.method)["kind"]
    task = encode(config.task)
    parameters = sum(parameter.numel() for parameter in model.denoiser.parameters())
    head = {"library_name": "simplax", "license": licence, "tags": ["discrete-diffusion", kind, task["kind"]]}
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items() if value is not None)
    defaults = model.defaults()
    sections = [
        f"---\n{front}\n---\n",
        f"# {_plain(name.rpartition('/')[2])}\n",
        f"{parameters:,} parameters, sequences of {config.task.length} tokens out of {config.task.vocab_size:,}.\n",
        f"```python\nimport simplax\n\nmodel = simplax.from_pretrained({name!r})\nmodel.sample(4).tokens\n```\n",
        "## Method\n" + _settings(encode(config.method)),
        "## Data\n" + _settings(task),
        "## Sampling by default\n"
        + _settings(
            {"sampler": model.sampler(), "num_steps": defaults.num_steps, "temperature": defaults.temperature}
        ),
        "## Weights\n" + _settings({**said, "format": manifest["format"], **manifest["versions"]}),
    ]
    if results:
        sections.append("## Results\n" + "\n".join(_result(path) for path in results))
    return "\n".join(sections)


def _plain(text: Any) -> str:
    """One line without markup."""
    line = re.sub(r"\s+", " ", text if isinstance(text, str) else json.dumps(text, default=str))
    return re.sub(r"([|`<>\\])", r"\\\1", line)


def _settings(values: dict[str, Any]) -> str:
    rows = [
        f"| {_plain(key)} | {_plain(_stored(value))} |" for key, value in values.items() if value is not None
    ]
    return "\n".join(["", "| | |", "|---|---|", *rows, ""])


def _stored(value: Any) -> Any:
    try:
        return encode(value)
    except TypeError:
        return str(value)


def _result(path: Path) -> str:
    """The numbers of one evaluation and how to get them again."""
    try:
        record, intact = read(path)
        numbers = {k: v for k, v in record["result"].items() if isinstance(v, int | float | str)}
        command = str(record["command"])
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{path} is not the manifest of an evaluation: see `simplax evaluate`.") from None
    if not intact:
        raise UserError(f"{path} is not as it was written: measure it again.")
    return f"\n```\n{command.replace('```', '')}\n```\n{_settings(numbers)}"
