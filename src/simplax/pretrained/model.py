"""Trained models: load them from a run, an exported directory or the package; sample, score and export them.

Weights are read from safetensors only; nothing is ever unpickled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from simplax.concentration import Concentration
from simplax.config.run import RunConfig, SamplingDefaults, to_json
from simplax.errors import UserError, nearest
from simplax.io.files import sha256, whole_directory, write_json, write_tensors
from simplax.io.manifest import environment
from simplax.io.sharding import current
from simplax.methods import Method, likelihood
from simplax.methods.likelihood import Likelihood
from simplax.pretrained import adapters, hub
from simplax.pretrained.numerics import Dtype, Numerics, prepare
from simplax.pretrained.stored import (
    ADAPTER,
    CONFIG,
    MANIFEST,
    WEIGHTS,
    Weights,
    check_size,
    fill,
    locate,
    tensors_of,
)
from simplax.samplers import Sampler, Samples
from simplax.samplers.adjust import adjusted
from simplax.samplers.batches import in_order, join, seeds_for
from simplax.samplers.guidance import Guide
from simplax.samplers.loop import sample
from simplax.samplers.stopping import Settled
from simplax.samplers.transfer import moved
from simplax.train.distributed import pick_device

if TYPE_CHECKING:
    from simplax.data.text import Tokenizer

logger = logging.getLogger(__name__)  # unless a program says otherwise, warnings are a line on stderr


@dataclass(frozen=True, eq=False)
class Model:
    """A denoiser with all that is needed to use it: its method, its task and how it was made.

    `origin` says where the weights came from (path, `ema` or `raw`, digest); it goes into manifests. `home` is the
    directory the model was loaded from; a tokenizer stored there is the model's own.
    """

    denoiser: nn.Module
    config: RunConfig
    origin: dict[str, Any] = field(default_factory=dict)
    home: Path | None = None
    numerics: Numerics = field(default_factory=Numerics)

    @property
    def method(self) -> Method:
        return self.config.method

    @property
    def device(self) -> torch.device:
        return next(self.denoiser.parameters()).device

    @property
    def dtype(self) -> str:
        if self.numerics.tf32:
            return "tf32"
        return str(getattr(self.denoiser, "autocast", None) or torch.float32).removeprefix("torch.")

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """What turns text into tokens and back, for models of text."""
        return self.config.task.tokenizer(self.home)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        if self.tokenizer is None:
            raise UserError(f"{self.config.name} is not a model of text: it has no tokenizer.")
        return self.tokenizer.encode(text)

    def decode(self, tokens: Tensor, lengths: Tensor | None = None) -> list[str]:
        """Sequences (batch, length) as people read them, special tokens included; `lengths` cut off padding."""
        if self.tokenizer is None:
            task = self.config.task
            return task.text(tokens if lengths is None else task.cut(tokens, lengths.to(tokens.device)))
        stops = [tokens.shape[1]] * len(tokens) if lengths is None else lengths.tolist()
        return [self.tokenizer.decode(row[:stop]) for row, stop in zip(tokens.tolist(), stops)]

    def describe(self) -> dict[str, Any]:
        """Name, origin and digest of the weights, for manifests."""
        return {"name": self.config.name, **self.origin}

    def defaults(self, *, conditional: bool = True) -> SamplingDefaults:
        """How the model is sampled by default, with given positions or with none."""
        sampling, free = self.config.sampling, self.config.unconditional
        if conditional or free is None:
            return sampling
        said = {name: value for name, value in vars(free).items() if value is not None}
        return replace(sampling, **said)

    def sampler(
        self,
        eta: float | Concentration | None = None,
        *,
        time_power: float | None = None,
        conditional: bool = True,
    ) -> Sampler[Any]:
        """The model's default sampler, with another concentration or grid of times if one is given.

        A model may have another one for no given positions, `conditional=False`; `sample` takes it by itself.
        """
        own = self.defaults(conditional=conditional).sampler or self.method.sampler()
        return adjusted(own, eta=eta, time_power=time_power)

    def sample(
        self,
        num: int,
        *,
        num_steps: int | None = None,
        seeds: Sequence[int] | Tensor | int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        tokens: Tensor | None = None,
        given: Tensor | None = None,
        eta: float | Concentration | None = None,
        time_power: float | None = None,
        sampler: Sampler[Any] | None = None,
        lengths: Sequence[int] | Tensor | int | None = None,
        labels: Mapping[str, Any] | None = None,
        guidance: float | Guide | None = None,
        loops: int | None = None,
        batch_size: int = 256,
        trajectory: bool = False,
        stop: Settled | None = None,
        score: bool = False,
        progress: Callable[[int], None] | None = None,
        watch: Callable[[int, Tensor], None] | None = None,
    ) -> Samples:
        """Draw `num` sequences; what is not said is the model's default.

        `seeds` are one integer per sample, or the first of `num` consecutive ones; a sample depends on its own seed
        and never on `batch_size` or the other samples. Positions where `given` (num, length) is true keep `tokens`; a
        row where it is true nowhere takes the defaults of a free draw. Models of sequences with known lengths draw each
        sample's length by its seed from those of the training data that are long enough for what is given, unless
        `lengths` says it. `labels` names what the samples should be like, `{"ring": "yes"}`, one value for all or one
        each, and `guidance` (`ClassifierFree`, a number for short, or `ByClassifier`) says how strongly they are pulled
        there. `loops` is how often a call goes through the network's blocks, if not as often as in training. `progress`
        is called with the number of sequences done, those in progress counted by their share of steps; `watch` with the
        number of steps that a batch has made and its tokens. `stop` ends sequences that do not change any more, `score`
        asks for the model's own score of its answers.
        """
        if num < 1 or batch_size < 1:
            raise UserError(
                f"the number of samples and the batch size must be at least 1, got {num} and {batch_size}."
            )
        if sampler is not None and (eta is not None or time_power is not None):
            raise UserError("give a sampler, or eta and a time power for the model's own, not both.")
        numbers = current().on_first(lambda: seeds_for(seeds, num))  # fresh seeds are those of all
        shape = (num, self.config.task.length)
        for name, value in (("tokens", tokens), ("given", given)):
            if value is not None and tuple(value.shape) != shape:
                raise UserError(f"{name} must have the shape {shape}, not {tuple(value.shape)}.")
        from simplax.data.text.lengths import attend_to

        sizes = self.lengths_for(numbers, lengths, given)
        attend = None if sizes is None else attend_to(sizes, self.config.task.length)
        described = self._labels(labels, num)
        held = torch.zeros(num, dtype=torch.bool) if given is None else given.any(-1).cpu()
        samplers = {
            conditional: sampler or self.sampler(eta, time_power=time_power, conditional=conditional)
            for conditional in set(held.tolist())
        }
        for chosen in samplers.values():
            self.method.check_sampler(chosen)
        batches = [
            (conditional, rows)
            for conditional in sorted(samplers, reverse=True)
            for rows in (held == conditional).nonzero().squeeze(-1).split(batch_size)
        ]
        processes, finished = current(), 0
        tell = None if progress is None else processes.counting(progress, num)

        def draw(number: int) -> Samples:
            nonlocal finished
            conditional, rows = batches[number]
            defaults, chosen = self.defaults(conditional=conditional), samplers[conditional]
            own_steps = chosen.steps_for(self.config.task.length) is not None
            drawn = sample(
                self.denoiser.eval(),
                (len(rows), self.config.task.length),
                sampler=chosen,
                process=self.method.process(self.denoiser),
                num_steps=defaults.num_steps if num_steps is None and not own_steps else num_steps,
                vocab_size=self.config.task.vocab_size,
                seeds=numbers[rows],
                tokens=None if tokens is None else tokens[rows].to(self.device),
                given=None if given is None else given[rows].to(self.device),
                attend=None if attend is None else attend[rows].to(self.device),
                labels=None if described is None else described[rows].to(self.device),
                guidance=guidance,
                temperature=defaults.temperature if temperature is None else temperature,
                top_p=defaults.top_p if top_p is None else top_p,
                loops=defaults.loops if loops is None else loops,
                trajectory=trajectory,
                stop=stop,
                score=score,
                progress=None if tell is None else _share(tell, finished, len(rows)),
                watch=watch,
            )
            finished += len(rows)
            return drawn if processes.size == 1 else moved(drawn, "cpu")

        with self.numerics.applied():
            parts = processes.map(draw, len(batches))
        whole = in_order(join(parts), torch.cat([rows for _, rows in batches]))
        return whole if processes.size == 1 else moved(whole, self.device)

    def lengths_for(
        self,
        seeds: Tensor,
        asked: Sequence[int] | Tensor | int | None = None,
        given: Tensor | None = None,
    ) -> Tensor | None:
        """How long the samples of these seeds are, for models of sequences with known lengths; None for others."""
        known = self.config.task.known_lengths()
        if known is not None:
            return known.choose(seeds, self.config.task.length, asked, given)
        if asked is not None:
            raise UserError(f"{self.config.name} does not take lengths: it learned where sequences end.")
        return None

    def _labels(self, labels: Mapping[str, Any] | Tensor | None, number: int) -> Tensor | None:
        """(number, labels) as the network reads them."""
        if labels is None or isinstance(labels, Tensor):
            return labels
        if not self.config.architecture.labels:
            raise UserError(
                f"{self.config.name} reads no labels: leave them out, or train it on data that has some."
            )
        from simplax.data.text.labels import chosen

        return chosen(self.config.task.described_by(), labels, number)

    def nll(
        self,
        tokens: Tensor,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        labels: Mapping[str, Any] | Tensor | None = None,
        draws: int = 8,
        seed: int = 0,
        batch_size: int = 256,
        carry: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> Likelihood:
        """Negative log-likelihood of sequences (batch, length) in nats per scored token: exact, or an upper bound.

        Tokens are counted up to the end symbol, where the model learned to write one; padding behind it adds its nats.
        `labels` are named as in `sample`, or a tensor of a task's own `Batch`; without them it is that of no label.
        With `carry=False` a network that carries something from call to call is scored without: a bound as well.
        """
        with self.numerics.applied():
            return likelihood.nll(
                self.method,
                self.denoiser.eval(),
                tokens,
                given=given,
                attend=attend,
                labels=self._labels(labels, len(tokens)),
                draws=draws,
                seed=seed,
                batch_size=batch_size,
                carry=carry,
                counted=self.config.task.counted(tokens),
                progress=progress,
            )

    def push_to_hub(self, name: str, *, private: bool = False, licence: str | None = None) -> str:
        """Put the model on the Hugging Face hub as `org/name`, with a card; where it is to be seen."""
        return hub.push(self, name, private=private, licence=licence)

    def save_pretrained(self, path: str | Path, dtype: torch.dtype | None = None) -> Path:
        """Write config.json, weights.safetensors, manifest.json and a tokenizer.json for text: all a model needs.

        `dtype` is how weights are stored, their own if not given; a loaded model computes in float32 all the same.
        Tables that are not trained keep their own. A new directory appears whole or not at all.
        """
        path = Path(path)
        with whole_directory(path) as folder:
            self._write(folder, dtype)
        return path

    def _write(self, path: Path, dtype: torch.dtype | None) -> None:
        trained = {name for name, _ in self.denoiser.named_parameters(remove_duplicate=False)}
        state = {
            name: tensor.detach().to("cpu", dtype if name in trained else None)
            for name, tensor in self.denoiser.state_dict().items()
        }
        write_tensors(path / WEIGHTS, state)
        write_json(path / CONFIG, to_json(self.config))
        origin = {**self.origin, "sha256": sha256(path / WEIGHTS)}
        if self.tokenizer is not None:
            self.tokenizer.save(path)
        said = {"name": self.config.name, **origin, "config_sha256": sha256(path / CONFIG)}
        write_json(path / MANIFEST, {**environment(), "model": said})


def from_pretrained(
    path_or_name: str | Path,
    *,
    weights: Weights = "auto",
    device: str = "auto",
    revision: str | None = None,
    base: str | Path | None = None,
    dtype: Dtype | torch.dtype | None = None,
    compile: bool = False,
) -> Model:
    """The model of that name in the package, in a run (its newest checkpoint; `RUN/best` is its best), in an exported
    directory, or on the hub (`org/name`, at a branch, tag or commit if `revision` says one).

    A `Path`, or a text such as `./sudoku`, is always a directory.

    A run holds averaged weights (`ema`) and the last ones (`raw`), an export one set; `auto` takes the former or what
    there is. Adapters are merged: with the weights they were trained on, which a run keeps; where they were exported
    alone, with the model `base`, or the one that they name.

    `dtype` is what the network computes in: float32, `bfloat16`, `tf32` on a GPU, or `auto` (bfloat16 on a GPU that has
    it). What is drawn from its predictions is drawn in float64 all the same. `compile` compiles the network when it is
    first called.
    """
    stored = locate(find(path_or_name, revision), weights)
    config = replace(stored.config, lora=None)
    origin: dict[str, Any] = {}
    if stored.file.name == ADAPTER:
        below = from_pretrained(adapters.base_of(stored.home) if base is None else base, device="cpu")
        tensors = adapters.on_base(stored, below.config, below.denoiser.state_dict())
        origin["base"] = below.describe()
    elif base is None:
        check_size(stored)
        tensors = tensors_of(stored)
    else:
        raise UserError(f"{path_or_name} holds more than adapters alone: leave out the base.")
    denoiser = config.method.build(config.task.vocab_size, config.task.length, config.architecture)
    fill(denoiser, stored, tensors)
    origin |= {"path": str(path_or_name), "weights": stored.kind, "sha256": sha256(stored.file)}
    if stored.home.parent.name == "snapshots":  # in the hub's cache, below its commit
        origin["revision"] = stored.home.name
    if stored.started_from is not None:
        origin["started_from"] = stored.started_from
    if stored.step is not None:
        origin["step"] = stored.step
    denoiser = denoiser.to(place(device)).eval()
    return Model(denoiser, config, origin, stored.home, prepare(denoiser, dtype, compile))


def _share(progress: Callable[[int], None], before: int, count: int) -> Callable[[int, int], None]:
    """Progress in steps of a batch of `count` sequences, reported in sequences."""
    return lambda step, steps: progress(before + count * step // steps)


def bundled() -> dict[str, Path]:
    """The models that come with the package, by name."""
    root = Path(str(files("simplax.pretrained"))) / "models"
    return {path.name: path for path in sorted(root.glob("*")) if (path / CONFIG).is_file()}


def find(path_or_name: str | Path, revision: str | None = None) -> Path:
    """The directory of a model: a name of `bundled`, an existing path, or a name of the hub, in this order.

    `./sudoku` is always a directory, and a `Path` always a path.
    """
    models, path = bundled(), Path(path_or_name)
    if is_bundled(path_or_name):
        if (path / CONFIG).is_file():
            _announce_bundled(str(path_or_name))
        return models[str(path_or_name)]
    if path.is_dir():
        if revision is not None:
            raise UserError(f"{path} is a directory here: only models of the hub have revisions.")
        return path
    if path.exists():
        raise UserError(f"{path} is a file: give the directory of a run or of an exported model.")
    if isinstance(path_or_name, str) and hub.is_name(path_or_name):
        return hub.download(path_or_name, revision)
    hint = "; give the directory of a run or an exported model."
    raise UserError(
        f"there is no model {str(path_or_name)!r}{nearest(str(path_or_name), list(models)) if models else hint}"
    )


@cache
def _announce_bundled(name: str) -> None:
    """Say once which of two models of the same name is used."""
    logger.warning("using the model %s that comes with simplax; write ./%s for the directory", name, name)


def is_bundled(path_or_name: str | Path) -> bool:
    """Whether this names a model that comes with the package, whatever directories there are."""
    return isinstance(path_or_name, str) and path_or_name in bundled()


def place(device: str) -> torch.device:
    """The device of that name, `auto` for the best one here."""
    try:
        chosen = pick_device(device)
        torch.zeros(1, device=chosen).item()  # `meta` makes tensors and cannot read them
    except UserError:
        raise
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UserError(f"device {device!r} cannot be used here: say auto, cpu or cuda.") from error
    return chosen
