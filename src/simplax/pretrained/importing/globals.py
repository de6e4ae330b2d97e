"""Which names a checkpoint may mention: none of them is ever looked up, so this decides only what is refused aloud."""

from __future__ import annotations

from dataclasses import dataclass

from simplax.errors import UserError

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # what protocol 2 calls them


@dataclass(frozen=True)
class Global:
    """A name that a pickle refers to."""

    module: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        return (_RENAMED.get(self.module, self.module), self.name)

    def __str__(self) -> str:
        shown = f"{self.module}.{self.name}"
        return repr(shown if len(shown) <= 80 else shown[:77] + "...")


# of Python itself, what a checkpoint has reason to mention
_HARMLESS_BUILTINS_TEXT = """
    dict list tuple set frozenset bytearray bytes str int float bool complex object slice range NoneType
    """
_HARMLESS_BUILTINS = frozenset(_HARMLESS_BUILTINS_TEXT.split())
# packages whose objects appear in checkpoints: instances of their classes are inert records
_RECORDS = (
    "omegaconf", "tokenizers", "transformers", "lightning", "lightning_fabric", "pytorch_lightning", "hydra",
    "torch", "numpy", "pathlib", "datetime", "collections", "typing", "enum", "functorch", "torchmetrics", "argparse",
)  # fmt: skip
_RECORD_FUNCTIONS = frozenset(
    [
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("torch", "device"),
        ("torch.serialization", "_get_layout"),
        ("numpy", "dtype"),
    ]
)
# packages that can read, write or run something: a checkpoint that so much as mentions them is refused
_REACHES_OUT_TEXT = """
    os posix nt ntpath posixpath subprocess sys builtins __builtin__ importlib imp pkgutil runpy code
    codeop pty commands popen2 shutil shlex socket socketserver ssl ctypes _ctypes cffi multiprocessing
    _posixsubprocess threading _thread asyncio concurrent signal atexit gc inspect types operator
    _operator functools _functools itertools pickle _pickle cPickle pickletools marshal dill cloudpickle
    joblib shelve dbm tempfile io _io fileinput glob webbrowser urllib http ftplib smtplib requests
    httpx aiohttp platform pdb bdb timeit trace profile cProfile doctest unittest test pip pytest
    setuptools distutils ensurepip venv site sitecustomize zipimport zipfile tarfile linecache tokenize
    ast symtable compileall py_compile logging sqlite3 numba antigravity idlelib lib2to3 turtle mmap
    resource fcntl codecs jinja2 yaml sympy simplax
    """
_REACHES_OUT = frozenset(_REACHES_OUT_TEXT.split())


def check_name(name: Global, file: str) -> Global:
    """The name, unless it belongs to what can reach out of the process."""
    package = name.module.partition(".")[0]
    harmless = name.key[0] == "builtins" and name.name in _HARMLESS_BUILTINS
    if package in _REACHES_OUT and not harmless:
        raise UserError(
            f"{file} asks for {name}, which no checkpoint needs: nothing was run, and the file is refused."
        )
    return name


def is_record(name: Global) -> bool:
    """Whether calling this name makes an object of a known package: a class by its spelling, or a listed function."""
    if name.key in _RECORD_FUNCTIONS:
        return True
    known = name.module.partition(".")[0] in _RECORDS
    return known and "." not in name.name and name.name.lstrip("_")[:1].isupper()
