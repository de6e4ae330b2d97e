"""The floor: what molecules of the training set itself score, at the same number of molecules.

Nobody can be expected to do better: FCD and Scaf depend on how many molecules there are, so a model is compared with as
many draws of its own data, never with zero.
"""

from __future__ import annotations

import json
from typing import Any

from simplax.data.cache import cache_directory
from simplax.evaluate.molecules.measure import Measured, Stage, measure
from simplax.evaluate.molecules.references import References
from simplax.io.digest import with_digest, without_digest
from simplax.io.files import write_json

# SNN is a mean over molecules, its value does not depend on their number, and it is the slowest column
_NEAREST_OF = 2000


def floor(
    against: References, num: int, *, workers: int = 1, progress: Stage | None = None
) -> dict[str, Any]:
    """Columns of the first `num` training strings of a fixed random order; kept in the cache by number.

    SNN is that of at most 2,000 of them. Novelty is zero by construction: these are copies.
    """
    from rdkit import rdBase

    num = min(num, len(against.train))
    name = f"{against.name}-{num}-rdkit{rdBase.rdkitVersion}.json"
    path = cache_directory() / "molecules" / "floors-1" / name
    try:
        kept = without_digest(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError):
        kept = None
    if kept is not None:
        return kept
    copies: Measured = measure(
        against.train[:num], against, workers=workers, nearest_of=_NEAREST_OF, progress=progress
    )
    found = {**copies.to_json(), "what": "training molecules, as many as are valid"}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, with_digest(found))
    return found
