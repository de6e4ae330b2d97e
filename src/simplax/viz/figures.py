"""What every figure needs: matplotlib if it is installed, and files in several formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simplax.errors import UserError
from simplax.io.files import replacing


def pyplot() -> Any:
    """`matplotlib.pyplot`, drawing to files only."""
    try:
        import matplotlib
    except ImportError as error:
        raise UserError('figures need matplotlib: run `pip install "simplax[plot]"`.') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def image(path: Path) -> Path:
    """The file a figure will be in: .png where no format is named; an impossible one is reported before the work."""
    known = pyplot().Figure().canvas.get_supported_filetypes()
    if not path.suffix:
        return path.with_name(path.name + ".png")
    if path.suffix[1:].lower() not in known:
        raise UserError(f"{path} is not an image file that can be written: name it .png, .svg or .pdf.")
    return path


def save(figure: Any, paths: Sequence[Path]) -> list[str]:
    """Write a figure to every path, in the format of its ending, and close it."""
    files = [image(path) for path in paths]
    try:
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                figure.savefig(temporary, dpi=200, format=path.suffix[1:].lower())
    finally:
        pyplot().close(figure)
    return [str(path) for path in files]


def both_formats(path: Path) -> list[Path]:
    """The path itself if it names a format, else the same name as PNG and as SVG."""
    return [path] if path.suffix else [path.with_name(path.name + ending) for ending in (".png", ".svg")]
