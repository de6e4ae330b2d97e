"""From a configuration to a running training: the one place where the tree is taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from simplax.config.run import RunConfig, from_json, load, to_json
from simplax.errors import UserError
from simplax.nn.lora import adapt
from simplax.pretrained.stored import CONFIG, run_of
from simplax.recipes.prior import fill_prior, start_prior
from simplax.recipes.watch import KeepSamples, metric
from simplax.train import Result, train
from simplax.train.hooks import Hook

OPERATIONS = ("name", "sampling", "unconditional")
"""What may differ when a run goes on, besides the operations of `Run`: it decides nothing about the weights."""


def build(config: RunConfig) -> nn.Module:
    """The untrained denoiser, the same for the same seed; torch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.run.seed)
        denoiser = config.method.build(config.task.vocab_size, config.task.length, config.architecture)
    start_prior(denoiser)
    return denoiser


def _keep_tokenizer(config: RunConfig, directory: Path) -> None:
    """A run of text carries its tokenizer from the first step, so that it can be used where the data is not."""
    if (directory / CONFIG).exists():
        return
    tokenizer = config.task.tokenizer()
    if tokenizer is not None:
        tokenizer.save(directory)


def _check_start(config: RunConfig, source: Path) -> None:
    """Weights mean nothing with other tokens."""
    tokenizer = config.task.tokenizer()
    if tokenizer is None:
        return
    first = config.task.tokenizer(run_of(source))
    if first is not None and first.to_json() != tokenizer.to_json():
        raise UserError(
            f"{source} was trained with another tokenizer: prepare the data with the one stored there."
        )


def _check_labels(config: RunConfig) -> None:
    """A network reads all labels of its data, or none."""
    sizes = tuple(label.size for label in config.task.described_by())
    if config.architecture.labels not in ((), sizes):
        raise UserError(
            f"the data has labels with {list(sizes)} classes (0 is a number) and the network reads "
            f"{list(config.architecture.labels)}: say --architecture.labels {','.join(map(str, sizes)) or '[]'}."
        )


def repeats(config: RunConfig, source: Path) -> str | None:
    """What a run started from `source` would see again of what that began with: data, data and noise, or None."""
    stored = run_of(source) / CONFIG
    try:
        before = from_json(load(stored)) if stored.is_file() else None
    except UserError:  # of another version, or not a recipe's: only its weights are needed
        return None
    if before is None or before.task != config.task:
        return None
    return "data and noise" if before.run.seed == config.run.seed else "data"


def launch(
    config: RunConfig,
    directory: str | Path,
    *,
    fresh: bool = False,
    allow_older: bool = False,
    init_from: str | Path | None = None,
    decay_from: bool = False,
    hooks: Sequence[Hook] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Result:
    """Train what `config` says in `directory`, or continue there unless `fresh`; `hooks` see every row of metrics.

    With `decay_from` the run finishes the one it starts from: see `simplax.train.train`.
    """
    directory = Path(directory)
    _check_labels(config)
    if init_from is not None:
        _check_start(config, Path(init_from))
    denoiser = build(config)
    begins = not (directory / "latest").exists()
    if begins:
        fill_prior(config, denoiser)
    if begins and init_from is None and config.method.needs_start:
        raise UserError("a distillation starts from its teacher: name that model with --init-from.")
    if config.lora is not None:
        if begins and init_from is None:
            raise UserError(
                "low-rank adapters are trained for a model that there is: name it with --init-from."
            )
        adapt(denoiser, config.lora, config.run.seed)
    samples = [KeepSamples(config, directory, hooks=hooks)] if config.run.sample_every else []
    return train(
        config.method,
        denoiser,
        config.task.train(),
        config.run,
        directory,
        validation=config.task.validation() if config.run.validate_every else None,
        metric=metric(config) if config.run.validate_every else None,
        config=to_json(config),
        modern_config=lambda stored: to_json(from_json(stored)),
        may_change=OPERATIONS,
        resume="never" if fresh else "auto",
        allow_older=allow_older,
        init_from=init_from,
        decay_from=decay_from,
        on_start=lambda: _keep_tokenizer(config, directory),
        hooks=[*hooks, *samples],
        device=device,
        quiet=quiet,
    )
