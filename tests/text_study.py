"""A small world for studies of text: a corpus of characters, models of it, and a scorer that is a table of counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from simplax import config, recipes
from simplax.data.text import Options, Prepared, prepare
from simplax.evaluate.text import Scored
from simplax.pretrained.model import Model
from simplax.recipes.launch import build

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "the",
    "dog",
    "run",
    "to",
    "the",
    "old",
    "red",
    "barn.",
    "it",
    "was",
    "late,",
    "so",
    "they",
    "went",
    "home.",
]


class Counts:
    """Scores characters by how often they occur in English; every state is the counts of a text."""

    name = "counts"
    identity: ClassVar = {"name": "counts", "sha256": "0", "dtype": "float64", "context": 1024}
    order = " etaoinshrdlucmfwypvbgkjqxz.,"

    def __init__(self) -> None:
        self.texts = 0

    def score(
        self,
        texts: Sequence[str],
        *,
        longest: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scored:
        places = [torch.tensor([self.order.find(c) % 30 for c in text]) for text in texts]
        self.texts += len(texts)
        if progress is not None:
            progress(len(texts))
        states = torch.stack([torch.bincount(p, minlength=30).double() for p in places])
        return Scored([0.1 * (p[1:] + 1).double() for p in places], [p[1:] + 1 for p in places], states)


def corpus(folder: Path, documents: int = 120, length: int = 24) -> Prepared:
    """Sentences of random words, a third of them held out."""
    random = torch.Generator().manual_seed(0)
    lines = []
    for _ in range(documents):
        picked = torch.randint(len(WORDS), (20,), generator=random).tolist()
        lines.append(" ".join(WORDS[i] for i in picked))
    (folder / "text.txt").write_text("\n\n".join(lines))
    options = Options(str(folder / "text.txt"), "characters", length=length, split="33%", separator="\n\n")
    return prepare(options, folder / "data")


def model(prepared: Prepared, method: str) -> Model:
    """An untrained model of the corpus."""
    settings = {
        "task.corpus": str(prepared.directory),
        "task.sequence_length": str(prepared.length),
        "task.categories": str(prepared.vocab_size),
    }
    small = config.resolve(recipes.smoke(recipes.get(f"text-mini-{method}")), None, list(settings.items()))
    torch.manual_seed(1)
    return Model(build(small).eval(), small)


def point(
    temperature: float, entropy: float, perplexity: float, steps: int = 8, **more: Any
) -> dict[str, Any]:
    """A row of a frontier as `Runner.run` gives it, its samples all alike."""
    nll = float(torch.tensor(perplexity).log()) * 10
    return {
        "kind": "model",
        "row": "m",
        "method": "UDLM",
        "num_steps": steps,
        "nfe": float(steps),
        "temperature": temperature,
        "num": 4,
        "columns": {"perplexity": perplexity, "entropy": entropy},
        "intervals": {"perplexity": [perplexity, perplexity], "entropy": [entropy, entropy]},
        "flags": [],
        "text": "a text",
        "per_sample": {"nll": [nll] * 4, "tokens": [10.0] * 4, "entropy": [entropy] * 4},
        "key": f"{temperature}",
        **more,
    }


def data(entropy: float, perplexity: float) -> dict[str, Any]:
    return {
        "kind": "data", "row": "data", "num": 9, "columns": {"perplexity": perplexity, "entropy": entropy},
        "intervals": {"perplexity": [1, 2], "entropy": [1, 2]}, "flags": [], "text": "human text",
    }  # fmt: skip
