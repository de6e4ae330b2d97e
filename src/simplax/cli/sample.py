"""`simplax sample MODEL`."""

from __future__ import annotations

from typing import Annotated

import tyro

from simplax.cli.output import emit
from simplax.cli.parsing import Device, Json, ModelName, Weights, run
from simplax.cli.sampling import Eta, read_eta


def main(arguments: list[str]) -> None:
    run(sample, arguments, "simplax sample")


def sample(
    model: ModelName,
    /,
    *,
    num: Annotated[int, tyro.conf.arg(help="how many sequences")] = 4,
    num_steps: Annotated[int | None, tyro.conf.arg(help="steps of the sampler")] = None,
    eta: Eta = None,
    temperature: Annotated[float | None, tyro.conf.arg(help="divides the logits")] = None,
    top_p: Annotated[float | None, tyro.conf.arg(help="nucleus of each prediction")] = None,
    seed: Annotated[int, tyro.conf.arg(help="of the first sequence; the others follow")] = 0,
    given: Annotated[bool, tyro.conf.arg(help="hold the given positions of validation sequences")] = False,
    batch_size: Annotated[int, tyro.conf.arg(help="changes speed only")] = 256,
    weights: Weights = "ema",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw sequences from a model. What is not said is the model's own default."""
    import torch

    from simplax.hub import from_pretrained
    from simplax.manifest import manifest

    concentration = read_eta(eta)
    loaded = from_pretrained(model, weights=weights, device=device)
    task = loaded.config.task
    held = task.validation().batch(torch.arange(num)) if given else None
    drawn = loaded.sample(
        num,
        num_steps=num_steps,
        seeds=seed,
        temperature=temperature,
        top_p=top_p,
        tokens=None if held is None else held.tokens,
        given=None if held is None else held.given,
        eta=concentration,
        batch_size=batch_size,
    )
    texts = task.text(drawn.tokens.cpu())
    record = manifest(
        loaded,
        sampler=loaded.sampler(concentration),
        num_steps=len(drawn.times) - 1,
        nfe=drawn.nfe,
        seeds=drawn.seeds.tolist(),
        temperature=loaded.config.sampling.temperature if temperature is None else temperature,
        top_p=loaded.config.sampling.top_p if top_p is None else top_p,
        given="validation" if given else None,
    )
    rows = zip(drawn.seeds.tolist(), texts, drawn.tokens.tolist())
    samples = [{"seed": number, "text": text, "tokens": ids} for number, text, ids in rows]
    emit(json, {"samples": samples, "manifest": record}, lambda: "\n".join(texts))
