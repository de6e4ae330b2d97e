"""A sampler by its name and its settings, for a model that may have one of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simplax.config import codec
from simplax.config.run import FAMILIES
from simplax.errors import UserError, nearest
from simplax.methods import Method
from simplax.samplers import SAMPLERS, Sampler


def choose_sampler(
    method: Method, own: Sampler[Any] | None, name: str | None, settings: Iterable[tuple[str, str]] = ()
) -> Sampler[Any]:
    """The sampler called `name` with `settings`, pairs such as `("times.power", "2.2")`, for a model of `method`.

    What `settings` leave out is as in `own`, the model's, or in the method's default if that is what `name` says; else
    it has the default of the sampler's class. Without a name the model's sampler is changed.
    """
    name = None if name is None else name.replace("-", "_")
    if name is not None and name not in SAMPLERS:
        raise UserError(f"there is no sampler {name!r}{nearest(name, list(SAMPLERS))}")
    known = [sampler for sampler in (own, method.sampler()) if sampler is not None]
    same = (sampler for sampler in known if name is None or type(sampler) is SAMPLERS[name])
    base = next(same, None)
    data = {"kind": name} if base is None else codec.encode(base, FAMILIES)
    for path, text in codec.outermost_first(settings):
        data = codec.merge(data, codec.nest(path, codec.Text(text)))
    chosen: Sampler[Any] = codec.decode(Sampler, data, FAMILIES, "sampler")
    method.check_sampler(chosen)
    return chosen
