"""The methods with vector states, trained by their recipes for minutes to a stated quality."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "continuous_methods", ROOT / "benchmarks" / "continuous_methods.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


script = _script()
EACH = [(family, method) for family in script.MEASURES for method in script.METHODS]


@pytest.mark.training
@pytest.mark.parametrize("family, method", EACH)
def test_methods_reach_the_stated_quality(family: str, method: str, tmp_path: Path) -> None:
    found = script.learn(family, method, tmp_path)
    assert script.reached(found), found


def test_limits_are_of_the_right_side() -> None:
    good, bad = {"pair_distance": 0.0, "solved": 1.0}, {"pair_distance": 1.0, "solved": 0.0}
    for family, method in EACH:
        assert script.reached({"recipe": f"{family}-{method}", **good})
        assert not script.reached({"recipe": f"{family}-{method}", **bad})
