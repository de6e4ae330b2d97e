"""Diffusion over categories, trained, sampled and fairly compared.

Names are imported when first used, so that `import simplax` and the command line's help stay light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simplax import functional as functional
    from simplax import methods as methods
    from simplax import samplers as samplers
    from simplax import schedules as schedules
    from simplax.pretrained.model import Model as Model
    from simplax.pretrained.model import from_pretrained as from_pretrained
    from simplax.samplers.loop import sample as sample

    __version__: str

# public name: (module, attribute), or the module itself
_PUBLIC: dict[str, tuple[str, str | None]] = {
    "Model": ("simplax.pretrained.model", "Model"),
    "from_pretrained": ("simplax.pretrained.model", "from_pretrained"),
    "functional": ("simplax.functional", None),
    "methods": ("simplax.methods", None),
    "sample": ("simplax.samplers.loop", "sample"),
    "samplers": ("simplax.samplers", None),
    "schedules": ("simplax.schedules", None),
}

__all__ = [
    "Model",
    "__version__",
    "from_pretrained",
    "functional",
    "methods",
    "sample",
    "samplers",
    "schedules",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("simplax")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'simplax' has no attribute {name!r}")
    module_name, attribute = _PUBLIC[name]
    module = importlib.import_module(module_name)
    return module if attribute is None else getattr(module, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
