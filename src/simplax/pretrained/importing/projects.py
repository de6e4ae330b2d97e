"""What MDLM, UDLM and Duo mean by the settings they store: which process, which time, which schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from simplax.errors import UserError
from simplax.methods import AR, MDLM, UDLM, DuoBase, Method, Simplax
from simplax.pretrained.importing.files import Found
from simplax.pretrained.importing.settings import Settings
from simplax.schedules import LogLinear

Noise = Literal["masked", "uniform", "none"]
ProjectName = Literal["mdlm", "udlm", "duo"]
MethodName = Literal["own", "mdlm", "udlm", "duo-base", "simplax"]
LOG_LINEAR = ("loglinear", "log-linear")


@dataclass(frozen=True)
class Conventions:
    """How a model is to be used: its noise, whether the network sees the time, and the length of its sequences."""

    noise: Noise
    time_conditioning: bool
    length: int | None
    heads: int | None
    rows: int | None
    dropout: float
    eps: float = 1e-3


def conventions(found: Found, project: ProjectName) -> Conventions:
    """What the settings of a model mean in the project it comes from."""
    read = _CHECKPOINT[project] if found.lightning else _hugging_face
    said = read(found.settings, project)
    causal = "sigma_map.mlp.0.weight" not in found.tensors
    if causal != (said.noise == "none"):
        what = "has no time input" if causal else "has a time input"
        raise UserError(f"{found.settings.where} does not fit its weights: the network {what}.")
    return said


def _hugging_face(settings: Settings, project: ProjectName) -> Conventions:
    """config.json of the hub's classes; the repositories' own class stores the size of the vocabulary and no more."""
    kind = (settings.word("model_type") or project).lower()
    if kind != project:
        known = kind if kind in _CHECKPOINT else None
        hint = f"say --from {known}" if known else "give a model of MDLM, UDLM or Duo"
        raise UserError(f"{settings.where} says that this is a model of type {kind[:40]!r}: {hint}.")
    shown = settings.flag("time_conditioning")
    return Conventions(
        noise="masked" if project == "mdlm" else "uniform",
        time_conditioning=project != "mdlm" if shown is None else shown,
        length=settings.number("model_length"),
        heads=settings.number("n_heads"),
        rows=settings.number("vocab_size"),
        dropout=settings.share("dropout"),
    )


def _kuleshov(settings: Settings, project: ProjectName) -> Conventions:
    """The repositories of MDLM and of UDLM, which share their settings; the latter trains all three kinds."""
    if settings.has("algo"):
        raise UserError(f"{settings.where} was written by Duo's code: say --from duo.")
    parameterization, diffusion = settings.word("parameterization"), settings.word("diffusion")
    table: dict[tuple[str | None, str | None], Noise] = {
        ("subs", "absorbing_state"): "masked",
        ("d3pm", "uniform"): "uniform",
        ("ar", diffusion): "none",
    }
    noise = table.get((parameterization, diffusion))
    if noise is None:
        raise UserError(
            f"{settings.where} was trained as {parameterization!r} with {diffusion!r} noise: only SUBS with masks, "
            "D3PM with uniform noise and autoregression can be imported."
        )
    if noise == "uniform" and project == "mdlm":
        raise UserError(f"{settings.where} was trained with uniform noise: say --from udlm.")
    return _lightning(settings, noise, settings.flag("time_conditioning"))


def _duo(settings: Settings, project: ProjectName) -> Conventions:
    name = settings.word("algo", "name")
    table: dict[str | None, Noise] = {
        "duo": "uniform",
        "duo_base": "uniform",
        "distillation": "uniform",
        "mdlm": "masked",
        "ar": "none",
    }
    if name not in table:
        other = " mdlm or udlm" if not settings.has("algo") else f": it has {', '.join(map(str, table))}"
        raise UserError(f"{settings.where} is not a run that --from duo knows{other}.")
    said = _lightning(settings, table[name], settings.flag("algo", "time_conditioning"))
    eps = settings.get("noise", "eps")
    if eps in (None, 0):  # the released branch stores 0 and its code takes 1e-3 all the same
        return said
    if isinstance(eps, str | bool) or not 0.0 < eps < 0.5:
        raise UserError(f"{settings.where} is damaged: noise.eps must lie between 0 and 0.5.")
    return replace(said, eps=float(eps))


def _lightning(settings: Settings, noise: Noise, time_conditioning: bool | None) -> Conventions:
    schedule = settings.word("noise", "type")
    if noise != "none" and schedule not in LOG_LINEAR:
        raise UserError(
            f"{settings.where} was trained with the schedule {schedule!r}: only log-linear is known."
        )
    return Conventions(
        noise=noise,
        time_conditioning=bool(time_conditioning) and noise != "none",
        length=settings.number("model", "length"),
        heads=settings.number("model", "n_heads"),
        rows=None,
        dropout=settings.share("model", "dropout"),
    )


_CHECKPOINT: Mapping[ProjectName, Callable[[Settings, ProjectName], Conventions]] = {
    "mdlm": _kuleshov,
    "udlm": _kuleshov,
    "duo": _duo,
}


def method(said: Conventions, project: ProjectName, wanted: MethodName = "own") -> Method:
    """The method that uses such a model: its own, or a uniform one that is to be trained from its weights."""
    own: dict[Noise, MethodName] = {
        "masked": "mdlm",
        "uniform": "duo-base" if project == "duo" else "udlm",
        "none": "own",
    }
    if said.noise == "none":
        if wanted != "own":
            raise UserError(
                "an autoregressive network has no input for the time: it cannot become another method."
            )
        return AR(bos_in_data=True)
    chosen = own[said.noise] if wanted == "own" else wanted
    if chosen == "mdlm" and said.noise != "masked":
        raise UserError(
            "a network trained on uniform noise has no mask: import it as udlm, duo-base or simplax."
        )
    kinds = {"mdlm": MDLM, "udlm": UDLM, "duo-base": DuoBase, "simplax": Simplax}
    build = cast(Callable[..., Method], kinds[chosen])
    return build(schedule=LogLinear(said.eps), time_conditioning=said.time_conditioning)
