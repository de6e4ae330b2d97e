"""What comes out of a pickle that is read as data, and the few calls whose results are imitated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simplax.pretrained.importing.globals import Global


@dataclass(eq=False, repr=False)
class Foreign:
    """An object of a class that is not looked up: what the file says it was made of."""

    kind: Global
    arguments: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Storage:
    """The bytes of one or more tensors: `key` is their name in the archive, `count` their number of elements."""

    dtype: str
    key: str
    count: int


@dataclass(frozen=True, eq=False)
class TensorReference:
    """A tensor that has not been read: where its elements lie in a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Damaged(Exception):
    """The instructions make no sense."""


def plain_key(key: Any) -> bool:
    """Whether something may be a key: the hash of nested tuples can take forever, and a record has none."""
    return key is None or type(key) in (str, int, float, bool, bytes)


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> TensorReference:
    numbers = (offset, *shape, *stride)
    if not isinstance(storage, Storage) or any(type(number) is not int for number in numbers):
        raise Damaged("tensor")
    return TensorReference(storage, offset, tuple(shape), tuple(stride))


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _mapping(*arguments: Any) -> dict[Any, Any]:
    """`dict`, `OrderedDict` or `defaultdict` of nothing, of a factory, of a mapping or of pairs."""
    source = arguments[-1] if arguments else ()
    if isinstance(source, dict):
        return dict(source)
    if isinstance(source, list | tuple):
        return {key: value for key, value in source if plain_key(key)}
    return {}


def _set(items: Any = ()) -> set[Any]:
    return {item for item in items if plain_key(item)}


def _text_bytes(text: str, encoding: str = "latin1", *_: Any) -> bytes:
    """Bytes as protocol 2 writes them."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Damaged("bytes")
    return text.encode("latin1")


def _reconstructed(kind: Any, base: Any = None, state: Any = None) -> Foreign:
    """An object of a class by way of `copyreg`, which calls nothing but `object.__new__`."""
    if not isinstance(kind, Global):
        raise Damaged("class")
    return Foreign(kind)


BUILDERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): _mapping,
    ("collections", "defaultdict"): _mapping,
    ("builtins", "dict"): _mapping,
    ("builtins", "list"): lambda items=(): list(items),
    ("builtins", "tuple"): lambda items=(): tuple(items),
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): lambda items=(): frozenset(_set(items)),
    ("builtins", "bytearray"): lambda data=b"", *rest: data,
    ("_codecs", "encode"): _text_bytes,
    ("copyreg", "_reconstructor"): _reconstructed,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}
