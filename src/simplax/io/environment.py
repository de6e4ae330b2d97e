"""Which versions and which machine made a file."""

from __future__ import annotations

import platform

import torch


def versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("simplax")
    except PackageNotFoundError:
        own = "unknown"
    return {"simplax": own, "torch": str(torch.__version__), "python": platform.python_version()}
