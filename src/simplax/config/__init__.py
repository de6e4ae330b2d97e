"""A whole run as one frozen tree of dataclasses, and its stored form."""

from simplax.config.run import (
    FAMILIES,
    RunConfig,
    SamplingDefaults,
    Unconditional,
    encode,
    flatten,
    from_json,
    load,
    resolve,
    to_json,
)

__all__ = [
    "FAMILIES",
    "RunConfig",
    "SamplingDefaults",
    "Unconditional",
    "encode",
    "flatten",
    "from_json",
    "load",
    "resolve",
    "to_json",
]
