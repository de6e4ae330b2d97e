"""A causal language model adapted to diffusion: the bound before and after some steps, on texts of its own.

SIMPLAX_TEST_DATA=DIR python tests/adaptation_study.py --steps 200 --out results/adaptation/stories260K.json
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simplax.io.files import write_json
from simplax.io.manifest import environment
from simplax.methods import MDLM, UDLM, Method
from simplax.methods.likelihood import nll
from simplax.pretrained.importing.causal import from_causal_lm
from simplax.random import Keys
from simplax.times import stratified
from simplax.typing import Batch, StepContext
from test_import_causal import stories, told

METHODS: dict[str, Method] = {"mdlm": MDLM(), "udlm": UDLM(time_conditioning=False)}
HELD_OUT, BATCH = 64, 32


@torch.no_grad()
def own_nats(path: Path, tokens: Tensor) -> float:
    """What the causal original needs for these texts, which it wrote itself: nobody needs less on average."""
    original = from_causal_lm(path, length=tokens.shape[1], causal=True).eval()
    picked = original(tokens).log_softmax(-1).gather(-1, tokens.unsqueeze(-1))
    return -float(picked.mean())


def adapt(path: Path, name: str, texts: Tensor, steps: int, learning_rate: float) -> dict[str, Any]:
    method, length = METHODS[name], texts.shape[1]
    train, held = texts[HELD_OUT:], texts[:HELD_OUT]
    denoiser = from_causal_lm(path, length=length, mask=isinstance(method, MDLM))
    before = nll(method, denoiser.eval(), held, draws=8)
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=learning_rate)
    start = time.perf_counter()
    for step in range(steps):
        rows = (torch.arange(BATCH) + step * BATCH) % len(train)
        context = StepContext(Keys.from_seeds(rows).fold_in(0, step), stratified(BATCH, 0, step), step)
        loss = method.loss(denoiser.train(), Batch.of(train[rows]), context).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(denoiser.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - start
    after = nll(method, denoiser.eval(), held, draws=8)
    return {
        "before": before.nats_per_token,
        "after": after.nats_per_token,
        "training_seconds": round(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        path = stories(Path(place))
        texts = told(path, options.texts, options.length)
        record = {
            **environment(),
            "model": "stories260K",
            "texts": options.texts,
            "length": options.length,
            "nats_per_token": {
                "of the original itself": own_nats(path, texts[:HELD_OUT]),
                **{name: adapt(path, name, texts, options.steps, options.learning_rate) for name in METHODS},
            },
        }
    print(record["nats_per_token"])
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.out, record)


if __name__ == "__main__":
    main()
