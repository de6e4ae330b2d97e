"""Reading a pickle without unpickling it: its instructions are followed on plain data, and nothing is imported.

A pickle is a program for a small stack machine that may call any function of any package. Here that program is read
as data. Containers, numbers and texts become what they are, tensors become references to their bytes, and objects of
other packages (a configuration of omegaconf, a tokenizer) become inert records. No class is looked up and no function
is called, so there is nothing that a file could run; a file that names a function is refused all the same.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable
from typing import Any

from simplax.errors import UserError
from simplax.pretrained.importing.globals import Global, check_name, is_record
from simplax.pretrained.importing.records import BUILDERS, Damaged, Foreign, Storage, plain_key

MOST_BYTES = 1 << 29  # a checkpoint's own pickle, without its tensors, has a few megabytes


def read_pickle(data: bytes, name: str) -> Any:
    """What the pickle `data` holds, as plain containers, `TensorReference` and `Foreign`; `name` is for messages."""
    if len(data) > MOST_BYTES:
        raise UserError(f"{name} holds {len(data):,} bytes of pickled objects: that is not a checkpoint.")
    machine = _Machine(name, budget=4 * len(data) + 1000)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that a damaged text may hold
            for opcode, argument, _ in pickletools.genops(data):
                machine.follow(opcode.name, argument)
        return machine.result()
    except UserError:
        raise
    except (Damaged, ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        raise UserError(f"{name} is damaged: what is pickled in it cannot be read.") from error


class _Machine:
    """The stack machine of pickle protocols 0 to 5, on plain data."""

    def __init__(self, name: str, budget: int) -> None:
        self.name, self.budget = name, budget
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # one stack for every mark that is open
        self.memo: dict[int, Any] = {}

    def follow(self, opcode: str, argument: Any) -> None:
        if opcode in _VALUES:
            self.stack.append(argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode]())
        elif opcode in _STEPS:
            _STEPS[opcode](self, argument)
        elif opcode not in ("PROTO", "FRAME", "STOP"):
            raise Damaged(opcode)

    def result(self) -> Any:
        (value,) = self.stack
        return value

    def pop_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.outer.pop()
        return items

    def reference(self, module: str, name: str) -> None:
        self.stack.append(check_name(Global(module, name), self.name))

    def call(self, target: Any, arguments: Any, keywords: Any = None) -> Any:
        """What calling `target` would have given; only what is known to build plain data is imitated."""
        if not isinstance(target, Global) or not isinstance(arguments, tuple):
            raise Damaged("call")
        if target.key in BUILDERS:
            return self.build(target, arguments)
        if not is_record(target):
            raise UserError(
                f"{self.name} asks to call {target}, which no checkpoint needs: "
                "nothing was run, and the file is refused."
            )
        return Foreign(target, (*arguments, keywords) if keywords else arguments)

    def instance(self, target: Any, arguments: Any, keywords: Any = None) -> Any:
        """A new object of a class: of another package an inert record."""
        if not isinstance(target, Global) or not isinstance(arguments, tuple):
            raise Damaged("instance")
        if target.key in BUILDERS:
            return self.build(target, arguments)
        return Foreign(target, (*arguments, keywords) if keywords else arguments)

    def build(self, target: Global, arguments: tuple[Any, ...]) -> Any:
        """Plain data from plain data, copying no more than a file of this size has reason to."""
        self.budget -= sum(len(each) for each in arguments if isinstance(each, _SIZED))
        if self.budget < 0:
            raise Damaged("copies of copies")
        return BUILDERS[target.key](*arguments)


_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def _set_items(machine: _Machine, pairs: list[Any]) -> None:
    if len(pairs) % 2:
        raise Damaged("pairs")
    target = machine.stack[-1]
    place = target.items if isinstance(target, Foreign) else target
    if type(place) is not dict:
        raise Damaged("items of something else")
    place.update({key: value for key, value in zip(pairs[::2], pairs[1::2]) if plain_key(key)})


def _append_items(machine: _Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Foreign):
        return  # entries of a foreign list are of no use here
    if type(target) is not list:
        raise Damaged("append to something else")
    target.extend(items)


def _add_items(machine: _Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not set:
        raise Damaged("add to something else")
    target.update(item for item in items if plain_key(item))


def _build(machine: _Machine, _: Any) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if isinstance(target, Foreign):
        target.state = state  # attributes of plain containers, such as versions of modules, are left out


def _persistent(machine: _Machine, _: Any) -> None:
    said = machine.stack.pop()
    kind, dtype, key, _location, count = said
    if (
        kind != "storage"
        or not isinstance(dtype, Global)
        or not isinstance(key, str)
        or type(count) is not int
    ):
        raise Damaged("persistent identifier")
    machine.stack.append(Storage(dtype.name, key, count))


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        if len(machine.stack) < count:
            raise Damaged("too few")
        machine.stack[-count:] = [tuple(machine.stack[-count:])]

    return step


def _call(machine: _Machine, _: Any) -> None:
    arguments, target = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.call(target, arguments))


def _new(machine: _Machine, _: Any) -> None:
    arguments, target = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.instance(target, arguments))


def _new_with_keywords(machine: _Machine, _: Any) -> None:
    keywords, arguments, target = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.instance(target, arguments, keywords))


def _inst(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    arguments = tuple(machine.pop_mark())
    machine.reference(module, name)
    machine.stack.append(machine.call(machine.stack.pop(), arguments))


def _obj(machine: _Machine, _: Any) -> None:
    target, *arguments = machine.pop_mark()
    machine.stack.append(machine.call(target, tuple(arguments)))


def _mark(machine: _Machine, _: Any) -> None:
    machine.outer.append(machine.stack)
    machine.stack = []


def _close(machine: _Machine, _: Any) -> None:
    machine.pop_mark()


def _pop(machine: _Machine, _: Any) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise Damaged("name")
    machine.reference(module, name)


def _named(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.reference(module, name)


def _collect(kind: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        items = machine.pop_mark()
        machine.stack.append(kind(items))

    return step


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return {key: value for key, value in zip(items[::2], items[1::2], strict=True) if plain_key(key)}


def _scalars(items: list[Any]) -> frozenset[Any]:
    return frozenset(item for item in items if plain_key(item))


def _remember(machine: _Machine, index: Any) -> None:
    machine.memo[len(machine.memo) if index is None else int(index)] = machine.stack[-1]


def _recall(machine: _Machine, index: Any) -> None:
    machine.stack.append(machine.memo[int(index)])


def _pair(machine: _Machine, _: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set_items(machine, [key, value])


# opcodes whose argument is the value itself
_VALUES_TEXT = """
    INT BININT BININT1 BININT2 LONG LONG1 LONG4 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES
    BINBYTES8 BYTEARRAY8 UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 FLOAT BINFLOAT
    """
_VALUES = frozenset(_VALUES_TEXT.split())
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": _close,
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "APPEND": lambda machine, _: _append_items(machine, [machine.stack.pop()]),
    "APPENDS": lambda machine, _: _append_items(machine, machine.pop_mark()),
    "LIST": _collect(list),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "TUPLE": _collect(tuple),
    "DICT": _collect(_pairs),
    "SETITEM": _pair,
    "SETITEMS": lambda machine, _: _set_items(machine, machine.pop_mark()),
    "ADDITEMS": lambda machine, _: _add_items(machine, machine.pop_mark()),
    "FROZENSET": _collect(_scalars),
    "GET": _recall,
    "BINGET": _recall,
    "LONG_BINGET": _recall,
    "PUT": _remember,
    "BINPUT": _remember,
    "LONG_BINPUT": _remember,
    "MEMOIZE": _remember,
    "GLOBAL": _named,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _call,
    "NEWOBJ": _new,
    "NEWOBJ_EX": _new_with_keywords,
    "INST": _inst,
    "OBJ": _obj,
    "BUILD": _build,
    "BINPERSID": _persistent,
}
