"""`simplax evaluate MODEL likelihood`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.evaluations.record import Out, keep
from simplax.cli.output import emit, facts
from simplax.cli.parsing import Device, Json, ModelName, Weights


def evaluate(
    model: ModelName,
    /,
    *,
    num: Annotated[int, tyro.conf.arg(help="how many validation sequences")] = 1024,
    draws: Annotated[int, tyro.conf.arg(help="independent draws of time and noise for each")] = 8,
    seed: Annotated[int, tyro.conf.arg(help="of times and noise")] = 0,
    batch_size: Annotated[int, tyro.conf.arg(help="changes speed only")] = 256,
    out: Out = None,
    weights: Weights = "ema",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Negative log-likelihood of validation sequences, exact or as an upper bound, in nats per scored token."""
    import time

    import torch

    from simplax.errors import UserError
    from simplax.hub import from_pretrained
    from simplax.manifest import manifest

    if num < 1:
        raise UserError(f"--num must be at least 1, got {num}.")
    loaded = from_pretrained(model, weights=weights, device=device)
    batch = loaded.config.task.validation().batch(torch.arange(num))
    start = time.perf_counter()
    value = loaded.nll(
        batch.tokens, given=batch.given, attend=batch.attend, draws=draws, seed=seed, batch_size=batch_size
    )
    result: dict[str, Any] = {
        "nats_per_token": value.nats_per_token,
        "ends": value.ends,
        "standard_error": value.standard_error,
        "monte_carlo_error": value.monte_carlo_error,
        "bits_per_token": value.bits_per_token,
        "perplexity": value.perplexity,
        "kind": "exact" if value.exact else "upper bound",
        "sequences": value.sequences,
        "scored_tokens": value.scored_tokens,
        "draws": value.draws,
        "data_entropy": loaded.config.task.entropy(),
    }
    seconds = time.perf_counter() - start
    record = manifest(loaded, seeds=[seed], evaluation="likelihood", seconds=seconds, result=result)
    written = keep(record, "likelihood", Path(model), out)
    data = {**result, "manifest": record, "written": written}
    emit(
        json, data, lambda: facts({k: v for k, v in {**result, "written": written}.items() if v is not None})
    )
