"""`simplax evaluate MODEL likelihood`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli.output import announce, check_targets, emit, facts
from simplax.cli.parsing import Device, Json, ModelName, Weights
from simplax.cli.sampling import BatchSize, Compile, Dtype
from simplax.cli.verbs.evaluations.record import Out, keep
from simplax.io.progress import progress

if TYPE_CHECKING:
    from simplax.methods.likelihood import Likelihood
    from simplax.pretrained.model import Model
    from simplax.typing import Batch


def evaluate(
    model: ModelName,
    /,
    *,
    num: Annotated[
        int | None, tyro.conf.arg(help="how many validation sequences; 1,024, or all if there are fewer")
    ] = None,
    draws: Annotated[int, tyro.conf.arg(help="independent draws of time and noise for each")] = 8,
    seed: Annotated[int, tyro.conf.arg(help="of times and noise")] = 0,
    no_labels: Annotated[
        bool, tyro.conf.arg(help="do not show the network the labels of the sequences")
    ] = False,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    out: Out = None,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Negative log-likelihood of validation sequences, exact or as an upper bound, in nats per sequence and per scored
    token: up to the end symbol, where padding follows it, whose nats belong to the sequence.

    A network that reads labels reads those of the data, or none with --no-labels. For models of text it is also given
    per character of the scored text, special symbols not counted. A network that carries something from call to call
    is scored twice, with its own first call on every state and with an empty carry: both are bounds.
    """
    import time

    from simplax.evaluate.cost import likelihood_cost
    from simplax.methods.likelihood import has_two_bounds
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for

    check_targets(out)
    loaded = from_pretrained(model, weights=weights, device=device, dtype=dtype, compile=compile)
    batch = loaded.config.task.held_out_batch(num)
    reads = bool(loaded.config.architecture.labels) and not no_labels
    if not reads:
        batch = replace(batch, labels=None)
    two = has_two_bounds(loaded.method, loaded.denoiser)
    bounds = [True, False] if two else [True]
    costs = [likelihood_cost(loaded, batch, draws, batch_size, carry=carry) for carry in bounds]
    cost = announce(functools.reduce(operator.add, costs))
    start = time.perf_counter()
    rounds = 1 if getattr(loaded.method, "exact_likelihood", False) else draws
    values, once = [], rounds * len(batch.tokens)
    with progress("likelihood", len(bounds) * once) as done:
        for number, carry in enumerate(bounds):
            value = loaded.nll(
                batch.tokens,
                given=batch.given,
                attend=batch.attend,
                labels=batch.labels,
                draws=draws,
                seed=seed,
                batch_size=batch_size_for(loaded, batch_size, len(batch.tokens)),
                carry=carry,
                progress=_after(number * once, done),
            )
            values.append(value)
    value = values[0]
    characters = count_characters(loaded, batch)
    result: dict[str, Any] = {
        **numbers(value, characters),
        "kind": "exact" if value.exact else "upper bound",
        "sequences": value.sequences,
        "scored_tokens": value.scored_tokens,
        "characters": characters,
        "draws": value.draws,
        "labels": [label.name for label in loaded.config.task.described_by()] if reads else None,
        "data_entropy": loaded.config.task.entropy(),
    }
    if two:
        result["empty_carry"] = numbers(values[1], characters)
    seconds = time.perf_counter() - start
    record = manifest(loaded, seeds=[seed], evaluation="likelihood", seconds=seconds, result=result)
    written = keep(record, "likelihood", model, out)
    data = {**result, "manifest": record, "written": written, "cost": cost}
    emit(
        json, data, lambda: facts({k: v for k, v in spoken({**result, "written": written}) if v is not None})
    )


def _after(before: int, done: Callable[[int], None]) -> Callable[[int], None]:
    return lambda count: done(before + count)


def numbers(value: Likelihood, characters: int | None) -> dict[str, float | None]:
    """One value or bound, with its errors."""
    return {
        "nats_per_token": value.nats_per_token,
        "nats_per_sequence": value.nats_per_sequence,
        "boundary_terms": value.boundary_terms,
        "standard_error": value.standard_error,
        "monte_carlo_error": value.monte_carlo_error,
        "bits_per_token": value.bits_per_token,
        "perplexity": value.perplexity,
        "nats_per_character": None if characters is None else value.nats_per_character(characters),
    }


def spoken(result: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values for people; where there are two bounds, each number says whose it is."""
    empty = result.get("empty_carry")
    for name, value in result.items():
        if empty is not None and name in empty:
            yield f"{name}, own first call", value
            yield f"{name}, empty carry", empty[name]
        elif name != "empty_carry":
            yield name, value


def count_characters(model: Model, batch: Batch) -> int | None:
    """Characters that the scored tokens stand for; None where tokens are not pieces of text."""
    from simplax.data.text.tokenizers import Integers, Values

    tokenizer = model.tokenizer
    if tokenizer is None or isinstance(tokenizer, Integers | Values):
        return None
    special = {tokenizer.eos, tokenizer.bos}
    rows = zip(batch.tokens.tolist(), batch.scored.tolist())
    spelled = [[x for x, counts in zip(*row) if counts and x not in special] for row in rows]
    return sum(len(tokenizer.decode(ids)) for ids in spelled) or None
