"""A page that plays runs: one HTML file that needs nothing else, with a slider, steps and speeds, and no network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from simplax.io.files import write_text

_SCRIPTS = ("transport.js", "rules.js", "views.js", "player.js")


def player_page(title: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """The player of `runs`, each with a `kind` (a view of `views.js`), a `name` and what its view draws."""
    folder = files("simplax.viz")
    plain = json.dumps(list(runs), ensure_ascii=False, separators=(",", ":"))
    # one script instead of modules, which a page on disk may not import
    scripts = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    parts = {
        "/*TITLE*/": title,
        "/*STYLE*/\n": folder.joinpath("player.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/\n": re.sub(r"^export ", "", scripts, flags=re.M),
        # last, for nothing in it is a place to fill; inside a script element only a tag could end it early
        "/*DATA*/null": plain.replace("<", "\\u003c"),
    }
    page = folder.joinpath("player.html").read_text(encoding="utf-8")
    for place, content in parts.items():
        page = page.replace(place, content)
    return page


def write_player(path: Path, title: str, runs: Sequence[Mapping[str, Any]]) -> Path:
    """Write the page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, player_page(title, runs))
    return path
