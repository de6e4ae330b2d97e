"""A page that plays frames: one HTML file that needs nothing else, with a slider, a play button and no network."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def player_page(title: str, kind: str, data: Any) -> str:
    """The player of `data`, drawn by the style and script called `kind` beside this module."""
    folder = files("simplax.viz")
    plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "/*TITLE*/": title,
        "/*STYLE*/\n": folder.joinpath(f"{kind}.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/\n": folder.joinpath(f"{kind}.js").read_text(encoding="utf-8"),
        # last, for nothing in it is a place to fill; inside a script element only a tag could end it early
        "/*DATA*/null": plain.replace("<", "\\u003c"),
    }
    page = folder.joinpath("player.html").read_text(encoding="utf-8")
    for place, content in parts.items():
        page = page.replace(place, content)
    return page
