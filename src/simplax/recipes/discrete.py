"""Settings of the discrete methods besides Simplax and UDLM, for runs of a known number of steps."""

from __future__ import annotations

from simplax.concentration import Normalised
from simplax.methods import AR, MDLM, SDM, Curriculum, Duo, DuoBase, Method

SUDOKU_NU, TEXT_NU, MOLECULES_NU = (
    Normalised(0.4, 0.75, 0.8),
    Normalised(0.2, 0.5, 0.2),
    Normalised(0.4, 0.75, 0.2),
)


def discrete(steps: int, nu: Normalised = SUDOKU_NU) -> dict[str, Method]:
    """Duo's curriculum takes half of the run, as published; `nu` is SDM's concentration, published for each domain."""
    return {
        "ar": AR(),
        "mdlm": MDLM(),
        "duo-base": DuoBase(),
        "duo": Duo(curriculum=Curriculum(end=steps // 2)),
        "sdm": SDM(concentration=nu),
    }
