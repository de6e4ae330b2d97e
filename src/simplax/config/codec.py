"""Frozen dataclasses as JSON and back, exactly.

A *family* is a base class with named members: in JSON a member carries its name as `kind`. A member is a class, or a
ready-made instance (a preset) whose fields the JSON may replace. Everything else is read by its type annotation, so a
new option needs no code here.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from simplax.errors import UserError, nearest

T = TypeVar("T")
Families = Mapping[type, Mapping[str, Any]]


class Text(str):
    """A value typed on the command line: what it means depends on the field it is for."""


def encode(value: Any, families: Families) -> Any:
    """`value` as plain JSON data; dataclasses that belong to a family are tagged with their `kind`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tags = {
            member: tag
            for members in families.values()
            for tag, member in members.items()
            if _is_class(member)
        }
        data = {"kind": tags[type(value)]} if type(value) in tags else {}
        return data | {f.name: encode(getattr(value, f.name), families) for f in _fields(type(value))}
    if isinstance(value, list | tuple):
        return [encode(item, families) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item, families) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored as JSON")


def decode(annotation: Any, value: Any, families: Families, where: str = "") -> Any:
    """The object that `annotation` says `value` stands for; `where` is its dotted name, for messages."""
    if annotation is Any:
        return value
    origin = get_origin(annotation) or annotation
    if origin in (typing.Union, types.UnionType):
        return _decode_union(get_args(annotation), value, families, where)
    if origin is Literal:
        return _decode_literal(get_args(annotation), value, where)
    if origin in (tuple, list):
        return _decode_sequence(annotation, value, families, where)
    if origin in families or dataclasses.is_dataclass(origin):
        return _decode_dataclass(origin, value, families, where)
    if origin is dict:
        return value
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
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def _is_class(member: Any) -> bool:
    return isinstance(member, type)


@functools.cache
def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(f for f in dataclasses.fields(cls) if f.init)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _mismatch(where: str, expected: str, value: Any) -> UserError:
    return UserError(
        f"{where or 'the configuration'} must be {expected}, not {json.dumps(value, default=str)}."
    )


def _decode_union(options: tuple[Any, ...], value: Any, families: Families, where: str) -> Any:
    empty = value is None or (isinstance(value, Text) and value.lower() in ("none", "null"))
    if empty and type(None) in options:
        return None
    # a typed word suits every string: try that reading last
    ordered = sorted((o for o in options if o is not type(None)), key=lambda o: o is str)
    structures = [o for o in ordered if (get_origin(o) or o) in families or dataclasses.is_dataclass(o)]
    if isinstance(value, Mapping) and structures:
        fitting = (o for o in structures if str(value.get("kind")) in families.get(get_origin(o) or o, ()))
        return decode(next(fitting, structures[0]), value, families, where)
    failure: UserError | None = None
    for option in ordered:
        try:
            return decode(option, value, families, where)
        except UserError as error:
            failure = error  # the last reading is the most telling: numbers come before names
    raise failure or _mismatch(where, "another value", value)


def _decode_literal(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    for choice in choices:
        if value == choice or (isinstance(value, Text) and str(choice) == value):
            return choice
    raise _mismatch(where, f"one of {', '.join(map(str, choices))}", value)


def _decode_sequence(annotation: Any, value: Any, families: Families, where: str) -> Any:
    origin, inner = get_origin(annotation) or annotation, get_args(annotation)
    if isinstance(value, Text):
        value = [Text(part.strip()) for part in value.strip("[]()").split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise _mismatch(where, "a list", value)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            raise _mismatch(where, f"a list of {len(inner)} values", value)
        kinds = list(inner)
    else:
        kinds = [inner[0] if inner else Any] * len(value)
    return origin(decode(k, v, families, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value)))


def _decode_dataclass(base: type, value: Any, families: Families, where: str) -> Any:
    if isinstance(value, Text) and value.lstrip().startswith("{"):
        value = _json(value, where)
    if isinstance(value, str):
        value = {"kind": str(value)}
    if not isinstance(value, Mapping):
        raise _mismatch(where, "a group of settings", value)
    fields = dict(value)
    member: Any = base
    if base in families and ("kind" in fields or not dataclasses.is_dataclass(base)):
        member = _member(families[base], fields.pop("kind", None), where)
    cls: type = member if _is_class(member) else type(member)
    known = {f.name: f for f in _fields(cls)}
    prefix = f"{where}." if where else ""
    for key in fields:
        if key not in known:
            near = nearest(f"{prefix}{key}", [prefix + name for name in known])
            raise UserError(f"{prefix}{key} is not a setting{near}")
    hints = _hints(cls)
    built = {key: decode(hints[key], item, families, prefix + key) for key, item in fields.items()}
    required = [n for n, f in known.items() if _has_no_default(f) and n not in built]
    if _is_class(member) and required:
        raise UserError(f"{prefix}{required[0]} is missing from the configuration.")
    try:
        return cls(**built) if _is_class(member) else dataclasses.replace(member, **built)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{where or 'The configuration'}: {error}.".replace("..", ".")) from error


def _member(members: Mapping[str, Any], kind: Any, where: str) -> Any:
    name = f"{where or 'the configuration'}"
    if kind is None:
        raise UserError(f"{name} does not say its kind: choose one of {', '.join(sorted(members))}.")
    if not isinstance(kind, str) or kind not in members:
        raise UserError(f"{kind!r} is not a kind of {name}{nearest(str(kind), list(members))}")
    return members[kind]


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not valid JSON: {error}.") from error


_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind not in _EXPECTED:
        raise TypeError(f"{where}: fields of type {kind} cannot be read from JSON")
    parsed = _typed(kind, value) if isinstance(value, Text) else value
    if kind is float and type(parsed) is int:
        return float(parsed)
    if kind is int and type(parsed) is float and parsed.is_integer():
        return int(parsed)
    if type(parsed) is not kind:
        raise _mismatch(where, _EXPECTED[kind], value)
    return parsed


def _typed(kind: Any, text: Text) -> Any:
    if kind is str:
        return str(text)
    if kind is bool:
        return _BOOLEANS.get(text.lower())
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None
