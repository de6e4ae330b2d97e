"""The models of a server: loaded once, found by name and kind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simplax.concentration import as_concentration, parse, spell
from simplax.config.run import SamplingDefaults
from simplax.config.sampling import choose_sampler
from simplax.errors import UserError, nearest
from simplax.pretrained.model import Model, bundled, from_pretrained
from simplax.samplers import SAMPLERS, Sampler
from simplax.samplers.adjust import adjusted
from simplax.serve.limits import LARGEST_ETA
from simplax.serve.schemas import Asked, Defaults, Kind, ModelInfo, SamplerInfo
from simplax.tasks import MoleculesTask, SequenceTask, SudokuTask, TextTask

KINDS: dict[type, Kind] = {
    SudokuTask: "sudoku",
    TextTask: "text",
    SequenceTask: "text",
    MoleculesTask: "molecules",
}


@dataclass(frozen=True, eq=False)
class Served:
    """A model under the name that clients use; where it lies on disk is nobody's business."""

    name: str
    kind: Kind
    model: Model

    def info(self) -> ModelInfo:
        task = self.model.config.task
        return ModelInfo(
            name=self.name,
            kind=self.kind,
            method=type(self.model.method).facts.title,
            parameters=sum(p.numel() for p in self.model.denoiser.parameters()),
            length=task.length,
            categories=task.vocab_size,
            size=task.size if isinstance(task, SudokuTask) else None,
            defaults=self._defaults(conditional=True),
            samplers=self._samplers(),
            free=self._defaults(conditional=False),
        )

    def _defaults(self, *, conditional: bool) -> Defaults:
        own, sampler = (
            self.model.defaults(conditional=conditional),
            self.model.sampler(conditional=conditional),
        )
        eta = getattr(sampler, "eta", None)
        return Defaults(
            steps=_steps(own, sampler, self.model.config.task.length),
            fixed_steps=sampler.steps_for(self.model.config.task.length) is not None,
            eta=None if eta is None else spell(eta),
            temperature=own.temperature,
            top_p=own.top_p,
        )

    def _sampler(self, name: str | None, *, conditional: bool) -> Sampler[Any]:
        if name is None:
            return self.model.sampler(conditional=conditional)
        return choose_sampler(self.model.method, self.model.defaults(conditional=conditional).sampler, name)

    def _samplers(self) -> list[SamplerInfo]:
        """Those that undo what the model was trained on, with nothing more to be said."""
        found = []
        for name in SAMPLERS:
            with suppress(ValueError, TypeError):
                sampler = self._sampler(name, conditional=True)
                eta, steps = getattr(sampler, "eta", None), sampler.steps_for(self.model.config.task.length)
                spelled = None if eta is None else spell(eta)
                found.append(SamplerInfo(name=name, eta=spelled, fixed_steps=steps))
        return found

    def sampling(self, asked: Asked, *, conditional: bool) -> Sampling:
        """The settings of a request, checked."""
        eta = None if asked.eta is None else parse(str(asked.eta))
        if eta is not None and as_concentration(eta).largest > LARGEST_ETA:
            raise UserError(f"eta is at most {LARGEST_ETA:g}.")
        sampler = adjusted(self._sampler(asked.sampler, conditional=conditional), eta=eta)
        own, length = self.model.defaults(conditional=conditional), self.model.config.task.length
        fixed = sampler.steps_for(length)
        if fixed is not None and asked.steps not in (None, fixed):
            raise UserError(f"this model's sampler makes exactly {fixed} steps: leave steps out.")
        steps = _steps(own, sampler, length) if asked.steps is None else asked.steps
        return Sampling(sampler, None if fixed is not None else steps, steps)


@dataclass(frozen=True, eq=False)
class Sampling:
    """`num_steps` is what the loop is told, None for samplers that leave no choice; `steps` how many there will be."""

    sampler: Sampler[Any]
    num_steps: int | None
    steps: int

    def on(self, model: Model) -> Model:
        """The model with this sampler as its own, with given positions and without any."""
        config, free = model.config, model.config.unconditional
        if free is not None and free.sampler is not None:
            free = replace(free, sampler=self.sampler)
        own = replace(config.sampling, sampler=self.sampler)
        return replace(model, config=replace(config, sampling=own, unconditional=free))


class Shelf:
    """All models of a server."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)

    def find(self, kind: Kind, name: str | None) -> Served:
        """The model of that name, or the first of its kind."""
        own = [one for one in self.served if one.kind == kind]
        if not own:
            raise UserError(f"this server has no model of {kind}: start it with one.")
        if name is None:
            return own[0]
        for one in own:
            if one.name == name:
                return one
        raise UserError(f"there is no {kind} model {name!r}{nearest(name, [one.name for one in own])}")


def load(names: Sequence[str], device: str = "auto") -> Shelf:
    """The named models, or all that come with the package; names that several would have are numbered."""
    served: list[Served] = []
    for path in names or list(bundled()):
        model = from_pretrained(path, device=device)
        kind = KINDS.get(type(model.config.task))
        if kind is None or (kind == "text" and model.tokenizer is None):
            raise UserError(f"{path} is a model of neither Sudoku, text nor molecules: name one that is.")
        name = Path(path).name or "model"
        taken = sum(one.name == name or one.name.startswith(f"{name}-") for one in served)
        served.append(Served(f"{name}-{taken + 1}" if taken else name, kind, model))
    if not served:
        raise UserError(
            "this installation has no bundled model: name a run or an exported model with --model."
        )
    return Shelf(served)


def _steps(own: SamplingDefaults, sampler: Sampler[Any], length: int) -> int:
    fixed = sampler.steps_for(length)
    return own.num_steps if fixed is None else fixed
