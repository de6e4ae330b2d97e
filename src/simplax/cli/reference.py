"""What every setting of every recipe is: its value, the form it is typed in, and its meaning.

`python -m simplax.cli.reference` writes `settings.json`, which the help of `simplax train RECIPE` is made of; run it
(or `make reference`) after a change of recipes or of their dataclasses. The meaning of a setting is the string below
its field, or else an entry of `simplax.cli.meanings`, or else the first clause of the class's docstring that names it.
In a checkout it also writes the table of methods in `docs/methods.md`, so that a new method is documented by its facts,
and the results of the Sudoku suite in the pages that show them.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from simplax.cli.meanings import MEANINGS
from simplax.cli.settings import GROUP, KIND, TABLE, shown
from simplax.cli.suite_pages import between, suite_pages
from simplax.config.run import FAMILIES, encode
from simplax.io.files import write_text
from simplax.methods import METHODS
from simplax.recipes import RECIPES, get

_METAVARS: dict[Any, str] = {int: "INT", float: "FLOAT", str: "TEXT", bool: "{true,false}"}


def describe(recipes: Iterable[str]) -> dict[str, Any]:
    """The table of these recipes: their sections, each section once, and an explanation of every class in them."""
    groups: dict[str, Any] = {}
    parts: list[Any] = []
    table: dict[str, Any] = {}
    for name in recipes:
        tree = _tree(get(name), groups)
        table[name] = {}
        for section, value in tree.items():
            if isinstance(value, dict):
                if value not in parts:
                    parts.append(value)
                value = parts.index(value)
            table[name][section] = value
    return {"groups": groups, "parts": parts, "recipes": table}


def text(table: dict[str, Any]) -> str:
    """The table as JSON with one entry per line."""
    lines = []
    for section, content in table.items():
        items = content.items() if isinstance(content, dict) else ((None, item) for item in content)
        named = [("" if key is None else f"{json.dumps(key)}: ") + json.dumps(item) for key, item in items]
        opened, closed = "{}" if isinstance(content, dict) else "[]"
        lines.append(f'"{section}": {opened}\n' + ",\n".join(named) + f"\n{closed}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _tree(value: Any, groups: dict[str, Any]) -> Any:
    """A configuration as JSON, every dataclass in it marked with the name of its group."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return encode(value)
    cls = type(value)
    name = f"{cls.__module__.removeprefix('simplax.')}.{cls.__qualname__}"
    if name not in groups:
        groups[name] = _group(cls)
    tree = {GROUP: name}
    if "kind" in (data := encode(value)):
        tree["kind"] = data["kind"]
    return {**tree, **{field: _tree(getattr(value, field), groups) for field in groups[name]["fields"]}}


def _group(cls: type) -> dict[str, Any]:
    """What a class is, and of each of its fields: how it is typed, what it means, and the names it may have."""
    hints = typing.get_type_hints(cls)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
    return {
        "about": _plain((inspect.getdoc(cls) or "").split("\n\n")[0]),
        "fields": {name: [_metavar(hint), meaning(cls, name), _names(hint)] for name, hint in fields.items()},
    }


def flat_settings(value: Any, path: str = "") -> dict[str, dict[str, str]]:
    """Every setting of a dataclass and of those within it by its dotted name: how it is typed, default, meaning."""
    rows: dict[str, dict[str, str]] = {}
    for name, (typed, about, names) in _group(type(value))["fields"].items():
        inner = getattr(value, name)
        nested = dataclasses.is_dataclass(inner)
        default = shown(encode(inner).get(KIND, "") if nested else encode(inner))
        if names:
            about = f"{about}; one of {', '.join(names)}"
        if names or not nested:
            rows[path + name] = {"typed": typed, "default": default, "meaning": about}
        if nested:
            rows |= flat_settings(inner, f"{path}{name}.")
    return rows


def meaning(cls: type, field: str) -> str:
    """What a field means, or nothing if that is written nowhere."""
    documented = [base for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    for base in documented:
        if field in (below := _strings_below_fields(base)):
            return below[field]
    owners = [base.__name__ for base in documented]
    packages = [base.__module__.split(".")[1] for base in documented if "." in base.__module__]
    for key in (*(f"{owner}.{field}" for owner in (*owners, *packages)), field):
        if key in MEANINGS:
            return MEANINGS[key]
    prose = " ".join(" ".join((base.__doc__ or "").split()) for base in documented)
    clauses = (clause for clause in re.split(r"(?<=[.;])\s+", prose) if f"`{field}`" in clause)
    return re.sub(rf"^{field} (is )?", "", _plain(next(clauses, "")))


def _strings_below_fields(cls: type) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for pair in zip(definition.body, definition.body[1:]):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = _plain(text)
    return found


def _plain(sentence: str) -> str:
    return " ".join(sentence.replace("`", "").split()).rstrip(".;")


def _metavar(annotation: Any) -> str:
    """How a value of this type is typed."""
    origin, inner = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return "|".join(dict.fromkeys(_metavar(option) for option in inner if option is not type(None)))
    if origin is Literal:
        return "{" + ",".join(map(str, inner)) + "}"
    if origin is tuple:
        return ",".join("..." if one is Ellipsis else _metavar(one) for one in inner)
    if origin in FAMILIES:
        return "NAME"
    return _METAVARS.get(origin, "JSON")


def _names(annotation: Any) -> list[str]:
    """The names under which values of this type are known, if they have names and there is a choice."""
    options = [get_origin(option) or option for option in (annotation, *get_args(annotation))]
    names = [name for option in options if option in FAMILIES for name in FAMILIES[option]]
    return names if len(names) > 1 else []


def methods_table() -> str:
    """The methods in Markdown, as they describe themselves."""
    lines = ["| Method | State it noises | Likelihood | Own sampler | From |", "|---|---|---|---|---|"]
    for name, method in METHODS.items():
        facts, sampler = method.facts, type(method().sampler()).__name__
        cells = (
            f"`{name}`",
            facts.latent,
            method.likelihood_kind(),
            f"`{sampler}`",
            facts.citation,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """A page with the table of methods between its two marks."""
    return between(page, _MARKS, methods_table())


_MARKS = "<!-- methods, by make reference -->", "<!-- end of methods -->"
METHODS_PAGE = Path(__file__).parents[3] / "docs" / "methods.md"


if __name__ == "__main__":
    write_text(TABLE, text(describe(RECIPES)))
    if METHODS_PAGE.is_file():  # a checkout
        write_text(METHODS_PAGE, with_table(METHODS_PAGE.read_text()))
        for page, content in suite_pages().items():
            write_text(page, content)
