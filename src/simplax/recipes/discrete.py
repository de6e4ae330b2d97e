"""Settings of the methods with token states besides Simplax and UDLM, for runs of a known number of steps."""

from __future__ import annotations

from simplax.methods import AR, MDLM, Curriculum, Duo, DuoBase, Method


def discrete(steps: int) -> dict[str, Method]:
    """Duo's curriculum takes half of the run, as published."""
    return {
        "ar": AR(),
        "mdlm": MDLM(),
        "duo-base": DuoBase(),
        "duo": Duo(curriculum=Curriculum(end=steps // 2)),
    }
