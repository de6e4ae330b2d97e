"""Options that all verbs that sample share; one that is not given has the model's own default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.concentration import Concentration
    from simplax.pretrained.model import Model
    from simplax.samplers import Sampler
    from simplax.samplers.stopping import Settled

Steps = Annotated[
    int | None, tyro.conf.arg(metavar="N", help="steps of the sampler: network calls per answer")
]
Eta = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="ETA",
        help="concentration of Simplax's sampler, or psi's, whose share of redrawn tokens is ETA / (1 + ETA): a "
        "number, vanish:VALUE:POWER:UNTIL:LEAST, pertoken:REDRAWS or "
        "normalised:NU0:NU1:BEND",
    ),
]
TimePower = Annotated[
    float | None,
    tyro.conf.arg(
        metavar="P", help="times of the steps are (1 - k/N)^P: over 1 for finer steps near the end"
    ),
]
Loops = Annotated[
    int | None, tyro.conf.arg(metavar="R", help="times that a call goes through the network's blocks")
]
Temperature = Annotated[float | None, tyro.conf.arg(help="divides the logits")]
StopAfter = Annotated[
    int | None,
    tyro.conf.arg(metavar="N", help="a board is done once N network calls in a row agree on it; 2 or more"),
]
Seed = Annotated[int, tyro.conf.arg(help="of the noise")]
Compile = Annotated[bool, tyro.conf.arg(help="compile the network first; on a CPU with small batches")]
Dtype = Annotated[
    Literal["float32", "tf32", "bfloat16", "auto"],
    tyro.conf.arg(help="of the network; auto: bfloat16 on a GPU that has it. Draws are float64 in any case"),
]
BatchSize = Annotated[
    int | Literal["auto"], tyro.conf.arg(metavar="N|auto", help="changes speed only; auto goes by memory")
]


# options of their own for settings that samplers share: the two ways to say one thing are not mixed
# (of Psi, eta says how many tokens are redrawn, and so does kappa); those of a group are the group's
SHORT = {"eta": "eta", "kappa": "eta", "times.power": "time_power"}


@dataclass(frozen=True)
class SamplerChoice:
    """`--sampler NAME` and any number of `--sampler.SETTING VALUE`; empty for the model's own sampler."""

    name: str | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def with_settings(self, settings: list[tuple[str, str]], others: Mapping[str, Any]) -> SamplerChoice:
        """The choice with settings that were typed apart from it, none of them said by another option as well."""
        for name, _ in settings:
            setting = name.replace("-", "_")
            short = SHORT.get(setting) or SHORT.get(setting.partition(".")[0])
            if short is not None and others.get(short) not in (None, ()):
                flag = f"--{short.replace('_', '-')}"
                raise UserError(f"{flag} and --sampler.{name} are the same setting: give one of them.")
        return replace(self, settings=tuple(settings))

    def of(self, model: Model, *, conditional: bool = True) -> Sampler[Any] | None:
        """The sampler that is chosen for the model; None if it is the model's own, unchanged."""
        from simplax.config.sampling import choose_sampler

        own = model.defaults(conditional=conditional).sampler
        if self == OWN:
            return own
        return choose_sampler(model.method, own, self.name, self.settings)

    def on(self, model: Model) -> Model:
        """The model with the chosen sampler as its own, with given positions and without any."""
        if self == OWN:
            return model
        config = model.config
        sampling = replace(config.sampling, sampler=self.of(model))
        free = config.unconditional
        if free is not None and free.sampler is not None:
            free = replace(free, sampler=self.of(model, conditional=False))
        return replace(model, config=replace(config, sampling=sampling, unconditional=free))


SamplerName = Annotated[
    SamplerChoice,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="NAME",
        instance_from_str=lambda words: SamplerChoice(words[0]),
        is_instance=lambda value: isinstance(value, SamplerChoice),
        str_from_instance=lambda choice: [choice.name or "the model's own"],
    ),
    tyro.conf.arg(
        help="one of `simplax samplers` instead of the model's own; --sampler.SETTING VALUE changes its settings",
        help_behavior_hint="",
    ),
]
OWN = SamplerChoice()


LabelValues = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        name="label",
        metavar="NAME=VALUE",
        help="what sequences should be like; once for each label of the data",
    ),
]
Guidance = Annotated[
    float | None,
    tyro.conf.arg(
        metavar="GAMMA",
        help="how strongly --label counts: 1 as trained, over 1 more than that, at two network calls per step",
    ),
]


def read_labels(texts: tuple[str, ...]) -> dict[str, str] | None:
    """The labels that were typed, if any."""
    from simplax.errors import UserError

    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise UserError(f"--label takes NAME=VALUE, not {name!r}.")
    named = {name: value for name, _, value in pairs}
    if len(named) < len(pairs):
        raise UserError("every label is given once: leave out the repetition of --label.")
    return named or None


def read_eta(text: str | None) -> float | Concentration | None:
    """The concentration that was typed, if any."""
    from simplax.concentration import parse

    return None if text is None else parse(text)


def read_stop(calls: int | None) -> Settled | None:
    """The early stop that was typed, if any."""
    from simplax.errors import UserError
    from simplax.samplers.stopping import Settled

    if calls is None:
        return None
    try:
        return Settled(calls)
    except ValueError as error:
        raise UserError(f"--stop-after: {error}.") from error
