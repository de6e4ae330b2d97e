"""The record of one use of a model: enough to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simplax.config import encode
from simplax.io.manifest import environment
from simplax.pretrained.model import Model


def manifest(
    model: Model,
    *,
    sampler: Any = None,
    num_steps: int | None = None,
    nfe: float | None = None,
    block_passes: float | None = None,
    multiply_adds: float | None = None,
    seeds: Sequence[int] | range | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """The record of one use of a model; `facts` are whatever else decides the result."""
    work = {"nfe": nfe, "block_passes": block_passes, "multiply_adds": multiply_adds}
    sampling = {"sampler": encode(sampler), "num_steps": num_steps, **work} if sampler is not None else {}
    return {
        **environment(),
        "model": model.describe(),
        "device": str(model.device),
        "dtype": {"network": model.dtype, "noise": "float64"},
        **({"compiled": True} if model.numerics.compiled else {}),
        **sampling,
        "seeds": _compact(seeds),
        **facts,
    }


def _compact(seeds: Sequence[int] | range | None) -> Any:
    """Consecutive seeds as their first and their number."""
    if seeds is None:
        return None
    values = list(seeds)
    if values and values == list(range(values[0], values[0] + len(values))):
        return {"first": values[0], "count": len(values)}
    return values
