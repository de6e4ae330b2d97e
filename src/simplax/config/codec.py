"""Frozen dataclasses as JSON and back, exactly, with a sentence for every mistake.

A *family* is a base class with named members: in JSON a member carries its name as `kind`. A member is a class, or a
ready-made instance (a preset) whose fields the JSON may replace. A base class may know short forms that people type:
its `from_text(text)` is None for all others. Everything else is read by its type annotation, so a new setting needs no
code here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from simplax.errors import UserError, nearest
from simplax.typing import WHERE_SAID

Families = Mapping[type, Mapping[str, Any]]


class Text(str):
    """A value typed on the command line: what it means depends on the type of its setting."""


def encode(value: Any, families: Families) -> Any:
    """`value` as plain JSON data; dataclasses that belong to a family are tagged with their `kind`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = (item for family in families.values() for item in family.items())
        kind = next(({"kind": name} for name, member in members if member is type(value)), {})
        said = {
            name: getattr(value, name)
            for name, field in _fields(type(value)).items()
            if _is_said(field, value)
        }
        return kind | {name: encode(item, families) for name, item in said.items()}
    if isinstance(value, list | tuple):
        return [encode(item, families) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item, families) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored as JSON")


def decode(annotation: Any, value: Any, families: Families, where: str = "") -> Any:
    """The object of type `annotation` that `value` describes; `where` is its dotted name, for messages."""
    origin = get_origin(annotation) or annotation
    if origin in (Any, dict):
        return value
    if origin in (typing.Union, types.UnionType):
        return _decode_union(get_args(annotation), value, families, where)
    if origin is Literal:
        return _decode_literal(get_args(annotation), value, where)
    if origin in (tuple, list):
        return _decode_sequence(annotation, value, families, where)
    if _is_group(origin, families):
        return _decode_group(origin, value, families, where)
    return _decode_scalar(origin, value, where)


def merge(base: Any, patch: Any) -> Any:
    """`patch` laid over `base`, key by key; another `kind` replaces instead, for its fields are different ones."""
    if not isinstance(patch, Mapping):
        return patch
    if isinstance(base, str):
        base = {"kind": base}
    if not isinstance(base, Mapping) or ("kind" in patch and patch["kind"] != base.get("kind")):
        base = {}
    return {**base, **{key: merge(base.get(key), value) for key, value in patch.items()}}


def nest(path: str, value: Any) -> Any:
    """`a.b` and a value as `{"a": {"b": value}}`."""
    return functools.reduce(lambda inner, key: {key: inner}, reversed(path.split(".")), value)


def outermost_first(flags: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Flags as pairs of a dotted name and a text; one that chooses a member comes before those that change it."""
    named = ((path.replace("-", "_").removesuffix(".kind"), text) for path, text in flags)
    return sorted(named, key=lambda pair: pair[0].count("."))


@functools.cache
def _fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


def _is_said(field: dataclasses.Field[Any], value: Any) -> bool:
    return field.metadata != WHERE_SAID or getattr(value, field.name) != field.default


_hints = functools.cache(typing.get_type_hints)


def _is_group(origin: Any, families: Families) -> bool:
    return origin in families or dataclasses.is_dataclass(origin)


def _mismatch(where: str, expected: str, value: Any) -> UserError:
    return UserError(
        f"{where or 'the configuration'} must be {expected}, not {json.dumps(value, default=str)}."
    )


def _decode_union(options: tuple[Any, ...], value: Any, families: Families, where: str) -> Any:
    empty = value is None or (isinstance(value, Text) and value.lower() in ("none", "null"))
    if empty and type(None) in options:
        return None
    # any word is a valid string: try that reading last
    ordered = sorted((o for o in options if o is not type(None)), key=lambda o: o is str)
    groups = [o for o in ordered if _is_group(get_origin(o) or o, families)]
    if isinstance(value, Mapping) and groups:
        fitting = (o for o in groups if str(value.get("kind")) in families.get(get_origin(o) or o, ()))
        return decode(next(fitting, groups[0]), value, families, where)
    failure: UserError | None = None
    for option in ordered:
        try:
            return decode(option, value, families, where)
        except UserError as error:
            failure = error  # numbers come before names, whose message helps most
    raise failure or _mismatch(where, "another value", value)


def _decode_literal(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    for choice in choices:
        if value == choice or (isinstance(value, Text) and str(choice) == value):
            return choice
    raise _mismatch(where, f"one of {', '.join(map(str, choices))}", value)


def _decode_sequence(annotation: Any, value: Any, families: Families, where: str) -> Any:
    origin, inner = get_origin(annotation) or annotation, get_args(annotation) or (Any, ...)
    if isinstance(value, Text):
        value = [Text(part.strip()) for part in value.strip("[]()").split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise _mismatch(where, "a list", value)
    fixed = origin is tuple and inner[-1] is not Ellipsis
    if fixed and len(value) != len(inner):
        raise _mismatch(where, f"a list of {len(inner)} values", value)
    kinds = inner if fixed else [inner[0]] * len(value)
    return origin(decode(k, v, families, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value)))


def _decode_group(base: type, value: Any, families: Families, where: str) -> Any:
    """A dataclass, or a member of a family: given as its fields, or by its name alone."""
    if isinstance(value, Text) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise UserError(f"{where} is not valid JSON: {error}.") from error
    if isinstance(value, Text) and (short := _short_form(base, value, where)) is not None:
        return short
    if isinstance(value, str):
        value = {"kind": str(value)}
    if not isinstance(value, Mapping):
        raise _mismatch(where, "a group of settings", value)
    data = dict(value)
    member: Any = base
    if base in families and ("kind" in data or not dataclasses.is_dataclass(base)):
        member = _member(families[base], data.pop("kind", None), where or "the configuration")
    cls: type = member if isinstance(member, type) else type(member)
    if hasattr(cls, "modernised"):  # fields as older versions stored them
        data = cls.modernised(data)
    known, prefix = _fields(cls), f"{where}." if where else ""
    for key in data:
        if key not in known:
            near = nearest(f"{prefix}{key}", [prefix + name for name in known])
            raise UserError(f"{prefix}{key} is not a setting{near}")
    built = {key: decode(_hints(cls)[key], item, families, prefix + key) for key, item in data.items()}
    missing = [name for name, field in known.items() if name not in built and _is_required(field)]
    if missing and member is cls:
        raise UserError(f"{prefix}{missing[0]} is missing from the configuration.")
    with _saying(where):
        return cls(**built) if member is cls else dataclasses.replace(member, **built)


def _short_form(base: Any, text: Text, where: str) -> Any:
    """What the text means in the short form of a family, or None if it is none."""
    if not hasattr(base, "from_text"):
        return None
    with _saying(where):
        return base.from_text(str(text))


@contextlib.contextmanager
def _saying(where: str) -> Iterator[None]:
    """A class's own complaint about its fields, with the name of the setting before it."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{where or 'The configuration'}: {error}.".replace("..", ".")) from error


def _member(members: Mapping[str, Any], kind: Any, where: str) -> Any:
    if kind is None:
        raise UserError(f"{where} has no kind: choose one of {', '.join(sorted(members))}.")
    if not isinstance(kind, str) or kind not in members:
        raise UserError(f"{kind!r} is not a kind of {where}{nearest(str(kind), list(members))}")
    return members[kind]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}  # fmt: skip  # noqa: E501
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind not in _EXPECTED:
        raise TypeError(f"{where}: fields of type {kind} cannot be read from JSON")
    parsed = value
    if isinstance(value, Text):
        parsed = (
            str(value) if kind is str else _BOOLEANS.get(value.lower()) if kind is bool else _number(value)
        )
    if kind is float and type(parsed) is int:
        return float(parsed)
    if kind is int and type(parsed) is float and parsed.is_integer():
        return int(parsed)
    if type(parsed) is not kind:
        raise _mismatch(where, _EXPECTED[kind], value)
    return parsed


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
