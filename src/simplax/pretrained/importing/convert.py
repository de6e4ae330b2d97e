"""A model of another project as one of ours: the same numbers, under our conventions for masks and vocabularies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simplax.config.run import RunConfig, SamplingDefaults
from simplax.data.text.tokenizers import FILE as TOKENIZER
from simplax.errors import UserError
from simplax.io.files import sha256, write_text
from simplax.methods import AR, MDLM
from simplax.nn import Architecture
from simplax.pretrained.importing.files import Choice, Found, read
from simplax.pretrained.importing.projects import (
    Conventions,
    MethodName,
    ProjectName,
    conventions,
    method,
)
from simplax.pretrained.model import Model
from simplax.tasks import TextTask
from simplax.tasks.text import SYNTHETIC
from simplax.train.run import Run

EMBEDDING, HEAD, HEAD_BIAS = "vocab_embed.embedding", "output_layer.linear.weight", "output_layer.linear.bias"
CLASSES = "cond_map.embedding_table.weight"
LONGEST = 1 << 17
NEVER = -1e4  # a logit whose probability is zero in every precision, and which float16 can store
_FINE_TUNING = Run(steps=1000, batch_size=32, save_every=200)
_PUBLISHED_STEPS = 128
# vocabularies with their mask inside that files without a tokenizer are known to have: BERT's
_KNOWN_MASKS = {30522: 103}


@dataclass(frozen=True)
class Request:
    """Settings of an import besides the file; None means what the file says."""

    weights: Choice = "auto"
    as_method: MethodName = "own"
    mask_id: int | None = None
    length: int | None = None
    drop_classes: bool = False
    data: str | None = None


@dataclass(frozen=True)
class Imported:
    """A model of ours and its tokenizer's JSON, if its file had one; `facts` say how it was understood."""

    model: Model
    tokenizer: str | None
    facts: dict[str, Any]

    def save(self, directory: Path) -> Path:
        """Write a model directory, whole or not at all."""
        directory = directory.resolve()
        temporary = directory.with_name(f".{directory.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            if self.tokenizer is not None:
                write_text(temporary / TOKENIZER, self.tokenizer)
            replace(self.model, home=temporary).save_pretrained(temporary)
            if directory.is_dir():
                directory.rmdir()  # an empty one may be there
            temporary.rename(directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return directory


def import_model(
    path: str | Path, project: ProjectName, request: Request | None = None, name: str = ""
) -> Imported:
    """The model in `path`, a Lightning checkpoint or a Hugging Face directory of one of the projects."""
    request = Request() if request is None else request
    path = Path(path)
    found = read(path, request.weights)
    said = conventions(found, project)
    tensors = _without_classes(found, request.drop_classes)
    shape = _architecture(tensors, said, found)
    rows = tensors[EMBEDDING].shape[0]
    length = _length(request.length, said, found)
    chosen = method(said, project, request.as_method)
    mask = _mask_id(request.mask_id, rows, found) if said.noise != "uniform" else None
    tensors, categories = _fit(tensors, mask, isinstance(chosen, MDLM), isinstance(chosen, AR))
    tokenizer = _tokenizer(found, categories)
    # an autoregressive model begins with a start symbol, which wrapped blocks have
    task = TextTask(request.data or SYNTHETIC, length, categories, wrap=isinstance(chosen, AR))
    run = _FINE_TUNING if found.ema_decay is None else Run(**{**vars(_FINE_TUNING), "ema": found.ema_decay})
    config = RunConfig(name or path.stem, task, chosen, shape, run, SamplingDefaults(_PUBLISHED_STEPS))
    denoiser = chosen.build(categories, length, shape)
    load_exactly(denoiser, tensors, found.settings.where)
    facts = {
        "from": project,
        "method": request.as_method if request.as_method != "own" else type(chosen).__name__,
        "weights": found.kind,
        "categories": categories,
        "length": length,
        "mask_id": mask,
        "rows": rows,
        "time_conditioning": said.time_conditioning,
        "classes_dropped": CLASSES in found.tensors,
        "tokenizer": tokenizer is not None,
    }
    origin: dict[str, Any] = {
        "path": path.name,
        "weights": found.kind,
        "imported": {**facts, "sha256": _digest(path)},
    }
    return Imported(Model(denoiser.eval(), config, origin), tokenizer, facts)


def _tokenizer(found: Found, categories: int) -> str | None:
    """The tokenizer's file, if there is one that the tokenizers library can use and that fits the categories."""
    text = None if found.vocabulary is None else found.vocabulary.text(categories)
    if text is None:
        return None
    try:
        from simplax.data.text.subwords import Subwords

        return text if Subwords.from_text(text, Path(found.settings.where)).vocab_size <= categories else None
    except UserError:
        return None


def _digest(path: Path) -> str | None:
    """Of the file that was imported; of a directory, of its weights."""
    files = [path] if path.is_file() else [path / "model.safetensors", path / "pytorch_model.bin"]
    return next((sha256(file) for file in files if file.is_file()), None)


def _without_classes(found: Found, drop: bool) -> dict[str, Tensor]:
    if CLASSES not in found.tensors:
        return found.tensors
    if not drop:
        raise UserError(
            f"{found.settings.where} is conditioned on {found.tensors[CLASSES].shape[0] - 1} classes, which cannot be "
            "imported: say --drop-classes to use it without them."
        )
    return {name: tensor for name, tensor in found.tensors.items() if name != CLASSES}


def _architecture(tensors: Mapping[str, Tensor], said: Conventions, found: Found) -> Architecture:
    """The shape of the network, from that of its weights."""
    where = found.settings.where
    width = _shape(tensors, EMBEDDING, where, 2)[1]
    if said.rows is not None and said.rows != tensors[EMBEDDING].shape[0]:
        rows = tensors[EMBEDDING].shape[0]
        raise UserError(
            f"{where} does not fit its weights: vocab_size is {said.rows} and there are {rows} rows."
        )
    blocks = {int(match[1]) for name in tensors if (match := re.match(r"blocks\.(\d{1,4})\.", name))}
    heads = said.heads
    if "rotary_emb.inv_freq" in tensors:
        head_width = 2 * _shape(tensors, "rotary_emb.inv_freq", where, 1)[0]
        turned = width // head_width if head_width and width % head_width == 0 else None
        if turned is None or heads not in (None, turned):
            raise UserError(f"{where} does not fit its weights: the number of heads is another one.")
        heads = turned
    if heads is None:
        raise UserError(f"{where} does not say the number of heads: add n_heads to config.json.")
    if not blocks:
        raise UserError(f"{where} does not fit its weights: the network has no blocks.")
    cond = (
        _shape(tensors, "sigma_map.mlp.0.weight", where, 2)[0] if "sigma_map.mlp.0.weight" in tensors else 128
    )
    hidden = _shape(tensors, "blocks.0.mlp.0.weight", where, 2)[0]
    if width < 1 or cond < 1 or hidden < width or hidden % width:
        raise UserError(f"{where} does not fit its weights: their shapes are not those of a network.")
    return Architecture(width, len(blocks), heads, cond, hidden // width, said.dropout)


def _shape(tensors: Mapping[str, Tensor], name: str, where: str, dimensions: int) -> tuple[int, ...]:
    tensor = tensors.get(name)
    if tensor is None or tensor.ndim != dimensions:
        raise UserError(f"{where} does not hold the network of MDLM, UDLM or Duo: {name} is missing.")
    return tuple(tensor.shape)


def _length(requested: int | None, said: Conventions, found: Found) -> int:
    length = said.length if requested is None else requested
    if length is None:
        raise UserError(
            f"{found.settings.where} does not say how long sequences are: say --length, 1024 for most published models."
        )
    if not 1 <= length <= LONGEST:
        raise UserError(f"the length of sequences must lie between 1 and {LONGEST:,}, not {length}.")
    return length


def _mask_id(requested: int | None, rows: int, found: Found) -> int:
    """The mask: the tokenizer's own, or the row after its last, or the last row where there is no tokenizer."""
    words = found.vocabulary
    if requested is not None:
        chosen = requested
    elif words is not None:
        chosen = words.size if words.mask_id is None else words.mask_id
    else:
        chosen = _KNOWN_MASKS.get(rows, rows - 1)
    if not 0 <= chosen < rows:
        raise UserError(f"the mask {chosen} is not one of the {rows} rows: say --mask-id.")
    return chosen


def _fit(
    tensors: dict[str, Tensor], mask: int | None, masked: bool, causal: bool
) -> tuple[dict[str, Tensor], int]:
    """Weights for our networks, and the number of categories.

    Our masked networks have the mask as the input row after the categories, and no output for it. A mask in the last
    row is that already, once its output is gone. One inside the vocabulary keeps its id, so that the tokenizer's ids
    stay true: its row is repeated behind the last, and its logit made impossible, as the projects do when they use it.
    Networks that read no mask lose its row.
    """
    rows = tensors[EMBEDDING].shape[0]
    if mask is None:
        return tensors, rows
    tensors = dict(tensors)
    if any(tensors.get(name) is None or len(tensors[name]) != rows for name in (HEAD, HEAD_BIAS)):
        raise UserError("the output layer of this model has another number of rows than its embedding.")
    if mask == rows - 1:
        if rows < 3:
            raise UserError("a model needs at least two categories besides its mask.")
        if not masked:
            tensors[EMBEDDING] = tensors[EMBEDDING][:mask].clone()
        tensors[HEAD], tensors[HEAD_BIAS] = tensors[HEAD][:mask].clone(), tensors[HEAD_BIAS][:mask].clone()
        return tensors, mask
    if masked:
        tensors[EMBEDDING] = torch.cat([tensors[EMBEDDING], tensors[EMBEDDING][mask : mask + 1]])
    for name, value in ((HEAD, 0.0), (HEAD_BIAS, NEVER)):
        tensors[name] = tensors[name].clone()
        tensors[name][mask] = value
    return tensors, rows


def load_exactly(denoiser: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Put weights into a network, which must have exactly these; rotary frequencies may be left out."""
    expected = denoiser.state_dict()
    stored = {name: tensor for name, tensor in tensors.items()}
    stored.setdefault("rotary_emb.inv_freq", expected["rotary_emb.inv_freq"])
    for name in [*expected, *stored]:
        if name not in stored or name not in expected:
            verb = "lacks" if name not in stored else "has the unknown entry"
            raise UserError(
                f"{where} does not hold the network of MDLM, UDLM or Duo: it {verb} {name[:80]!r}."
            )
        if stored[name].shape != expected[name].shape:
            shapes = f"{tuple(stored[name].shape)} instead of {tuple(expected[name].shape)}"
            raise UserError(f"{where} does not fit its weights: {name} has shape {shapes}.")
    if not torch.allclose(stored["rotary_emb.inv_freq"], expected["rotary_emb.inv_freq"], rtol=1e-4, atol=0):
        raise UserError(f"{where} turns positions by other frequencies than the published networks do.")
    denoiser.load_state_dict(stored)
