"""What guidance buys and what it costs: properties of the molecules drawn at one strength, and how many are left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from simplax.data.molecules.canonical import canonical
from simplax.data.molecules.labels import property_of
from simplax.evaluate.intervals import wilson


def guided_row(strings: Sequence[str], train: Collection[str], properties: Sequence[str]) -> dict[str, Any]:
    """Counts of valid, distinct and novel strings, and the mean of each property over valid and over novel ones.

    As Schiff et al. (2025) count: novel molecules are distinct and not trained on, and the mean that is reported is
    theirs. `*_interval` are 95 %.
    """
    forms = [form for form in map(canonical, strings) if form is not None]
    distinct = list(dict.fromkeys(forms))
    novel = [form for form in distinct if form not in train]
    row: dict[str, Any] = {
        "num": len(strings),
        "valid": len(forms),
        "unique": len(distinct),
        "novel": len(novel),
        "valid_interval": list(wilson(len(forms), len(strings))),
    }
    for name in properties:
        values = {form: property_of(form, name) for form in distinct}
        for kind, chosen in (("valid", forms), ("novel", novel)):
            numbers = np.array([values[form] for form in chosen])
            row[f"{name}_{kind}"] = float(numbers.mean()) if len(numbers) else None
            error = 1.96 * float(numbers.std(ddof=1)) / len(numbers) ** 0.5 if len(numbers) > 1 else None
            row[f"{name}_{kind}_error"] = error
    return row
