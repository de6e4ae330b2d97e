"""`simplax evaluate MODEL molecules` and `simplax evaluate FILE.smi molecules`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli.output import announce, check_targets, emit, table
from simplax.cli.parsing import Device, Json, Weights
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    Eta,
    Guidance,
    LabelValues,
    SamplerName,
    Seed,
    Steps,
    Temperature,
    TimePower,
    read_eta,
    read_labels,
)
from simplax.cli.verbs.evaluations.record import Out, keep
from simplax.io.progress import progress

if TYPE_CHECKING:
    from simplax.evaluate.molecules.measure import Measured, Stage
    from simplax.pretrained.model import Model

What = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="MODEL",
        help="a run directory, an exported directory, a bundled name, or a file with one string per line",
    ),
]
_HELD_OUT, _DRAWS = 1024, 4
_COLUMNS = (
    "valid", "unique@1000", "unique@10000", "Novelty", "FCD/Test", "FCD/TestSF", "fcd_infinity", "SNN/Test",
    "SNN/TestSF", "Frag/Test", "Frag/TestSF", "Scaf/Test", "Scaf/TestSF", "IntDiv", "IntDiv2", "Filters", "logP", "SA",
    "QED", "weight", "Quality", "VUN", "interior_pads",
)  # fmt: skip


def evaluate(
    model: What,
    /,
    *,
    num: Annotated[
        int | None, tyro.conf.arg(help="how many strings to draw, 30,000 if not given; of a file, its first")
    ] = None,
    reference: Annotated[
        Literal["moses", "qm9"] | None,
        tyro.conf.arg(help="what to compare with: a model's own data, and MOSES for a file, if not given"),
    ] = None,
    floor: Annotated[
        Literal["measured", "none"],
        tyro.conf.arg(help="measure as many training molecules beside it (kept for next time), or not"),
    ] = "measured",
    controls: Annotated[
        int, tyro.conf.arg(metavar="N", help="measure so many strings of each control beside it")
    ] = 0,
    steps: Steps = None,
    temperature: Temperature = None,
    top_p: Annotated[float | None, tyro.conf.arg(help="nucleus of each prediction")] = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    labels: LabelValues = (),
    guidance: Guidance = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    workers: Annotated[int, tyro.conf.arg(help="processes that compute properties; changes speed only")] = 1,
    samples: Annotated[Path | None, tyro.conf.arg(help="file for the strings, one per line")] = None,
    figures: Annotated[Path | None, tyro.conf.arg(help="directory for pictures of the strings")] = None,
    out: Out = None,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Molecules measured as the public MOSES code does, with 95 % intervals and the floor at equal numbers.

    Strings are measured as they stand, in order, duplicates and invalid ones included: nothing is repaired or drawn
    again. A string with padding inside is not valid. The floor is what as many training molecules score: FCD and Scaf
    depend on the number of valid molecules.
    """
    from simplax.data.molecules.canonical import rdkit
    from simplax.errors import UserError
    from simplax.evaluate.molecules.floor import floor as measured_floor
    from simplax.evaluate.molecules.measure import measure
    from simplax.evaluate.molecules.references import references
    from simplax.io.files import write_text
    from simplax.io.sharding import current

    for name, value, least in (("number", num, 1), ("workers", workers, 1), ("controls", controls, 0)):
        if value is not None and value < least:
            raise UserError(f"the number of {name} must be at least {least}, got {value}.")
    rdkit()  # a missing package is reported before the work
    check_targets(out, samples)
    if figures is not None:
        from simplax.viz.figures import pyplot

        pyplot()
        if figures.exists() and not figures.is_dir():
            raise UserError(f"{figures} is a file: name a directory for the pictures.")
    facts: dict[str, Any] = {}
    data: str
    if Path(model).is_file():
        from simplax.evaluate.molecules.strings import read_strings

        strings = read_strings(Path(model))[:num]
        record = _file_record(Path(model))
        data = reference or "moses"
    else:
        from simplax.pretrained.numerics import batch_size_for

        options: dict[str, Any] = {
            "num_steps": steps, "temperature": temperature, "top_p": top_p, "eta": read_eta(eta),
            "time_power": time_power, "labels": read_labels(labels), "guidance": guidance,
        }  # fmt: skip
        loaded, data = _load(model, weights, device, reference, dtype, compile)
        number = 30_000 if num is None else num
        options["batch_size"] = batch_size_for(loaded, batch_size, number)
        strings, facts, record = _draw(sampler.on(loaded), number, seed, options)

    def finish() -> None:
        if samples is not None:
            write_text(samples, "".join(f"{text}\n" for text in strings))
        with _stages() as stage:
            against = references(data, workers=workers, progress=stage)
        with _stages() as stage:
            own = measure(strings, against, workers=workers, progress=stage)
        beside: dict[str, Any] = {}
        if floor == "measured" and own.num_valid > 0:
            with _stages("floor: ") as stage:
                beside["floor"] = measured_floor(against, own.num_valid, workers=workers, progress=stage)
        if controls:
            beside["controls"] = _controls(against, controls, workers)
        result = {**own.to_json(), **facts, "reference": data, **beside}
        record.update(evaluation="molecules", reference=data, rdkit=_rdkit_version(), result=result)
        if figures is not None:
            from simplax.viz.molecules import draw_evaluation

            record["figures"] = draw_evaluation(figures, strings, own, against)
        written = keep(record, "molecules", model, out)
        emit(json, {**result, "manifest": record, "written": written}, lambda: _shown(own, beside, written))

    current().on_first(finish)  # several processes share the drawing; the chemistry has --workers


def _load(
    model: str, weights: Any, device: str, reference: str | None, dtype: Any, compile: bool
) -> tuple[Model, str]:
    from simplax.evaluate.molecules.strings import molecules_task
    from simplax.pretrained.model import from_pretrained

    loaded = from_pretrained(model, weights=weights, device=device, dtype=dtype, compile=compile)
    return loaded, reference or molecules_task(loaded).dataset


def _draw(
    model: Model, num: int, seed: int, options: dict[str, Any]
) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Strings of a model, facts for the table and the manifest."""
    import time

    from simplax.evaluate.cost import sampling_cost
    from simplax.evaluate.molecules.strings import molecules_task
    from simplax.methods import HasLikelihood
    from simplax.pretrained.manifest import manifest

    task = molecules_task(model)
    used = model.sampler(options["eta"], time_power=options["time_power"], conditional=False)
    cost = announce(
        sampling_cost(
            model,
            num,
            sampler=used,
            num_steps=options["num_steps"],
            batch_size=options["batch_size"],
            guidance=options["guidance"],
        )
    )
    start = time.perf_counter()
    with progress("sampling", num) as done:
        drawn = model.sample(num, seeds=seed, progress=done, **options)
    facts: dict[str, Any] = {
        **drawn.work(),
        "sampling_seconds": time.perf_counter() - start,
        "parameters": sum(parameter.numel() for parameter in model.denoiser.parameters()),
        "tokens": task.tokens,
        "length": "padding is a token" if task.known_lengths() is None else "drawn from the data",
        "nats_per_molecule": None,
    }
    if isinstance(model.method, HasLikelihood):
        source: Any = task.validation()
        held = task.held_out_batch(min(_HELD_OUT, len(source)))
        draws = 1 if model.method.exact_likelihood else _DRAWS
        with progress("likelihood", draws * len(held.tokens)) as done:
            value = model.nll(
                held.tokens,
                attend=held.attend,
                labels=held.labels,
                draws=draws,
                batch_size=options["batch_size"],
                progress=done,
            )
        # never only per position: padding is easy, and there may be any amount of it
        facts["nats_per_molecule"] = float(value.per_sequence.mean())
        facts["nats_per_molecule_kind"] = "exact" if value.exact else "upper bound"
    defaults = model.defaults(conditional=False)
    record = manifest(
        model,
        sampler=used,
        cost=cost,
        num_steps=drawn.num_steps,
        **drawn.work(),
        seeds=range(seed, seed + num),
        temperature=defaults.temperature if options["temperature"] is None else options["temperature"],
        top_p=defaults.top_p if options["top_p"] is None else options["top_p"],
        labels=options["labels"],
        guidance=options["guidance"],
    )
    return model.decode(drawn.tokens.cpu(), drawn.lengths), facts, record


def _controls(against: Any, num: int, workers: int) -> list[dict[str, Any]]:
    from simplax.evaluate.molecules.controls import controls
    from simplax.evaluate.molecules.measure import measure

    rows = []
    for name, control in controls(against.train, num).items():
        with _stages(f"{name}: ") as stage:
            measured = measure(control.strings, against, workers=workers, progress=stage)
        rows.append({"row": name, "note": control.note, "caught_by": control.caught_by, **measured.to_json()})
    return rows


def _file_record(path: Path) -> dict[str, Any]:
    from simplax.io.files import sha256
    from simplax.io.manifest import environment

    return {**environment(), "strings": {"file": path.name, "sha256": sha256(path)}}


def _rdkit_version() -> str:
    from rdkit import rdBase

    return str(rdBase.rdkitVersion)


@contextmanager
def _stages(prefix: str = "") -> Iterator[Stage]:
    """A bar per stage of the work, one after the other."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        current: dict[str, Any] = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in current:
                stack.close()
                current.clear()
                current[stage] = stack.enter_context(progress(prefix + stage, total))
            current[stage](done)

        yield tell


def _shown(own: Measured, beside: dict[str, Any], written: str | None) -> Any:
    from rich.console import Group
    from rich.text import Text

    rows = []
    for name in _COLUMNS:
        low, high = own.intervals.get(name, (None, None))
        ends = "" if low is None or high is None else f"{low:.4f} to {high:.4f}"
        others = [beside["floor"].get(name)] if "floor" in beside else []
        others += [row.get(name) for row in beside.get("controls", [])]
        rows.append([name, _number(own.values.get(name)), ends, *map(_number, others)])
    heads = ["", "value", "95 %", *(["floor"] if "floor" in beside else [])]
    heads += [row["row"] for row in beside.get("controls", [])]
    wrong = ", ".join(f"{kind}: {count}" for kind, count in own.errors.items()) or "none"
    about = f"\n{own.num_valid:,} of {own.num:,} strings are valid. Errors by kind: {wrong}."
    fewer = [k for k in (1000, 10_000) if own.num_valid < k]
    if fewer:
        about += f"\nunique@{fewer[0]} is over the {own.num_valid:,} valid strings there are."
    return Group(table(heads, rows, names=1), Text(about), Text("" if written is None else written))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
