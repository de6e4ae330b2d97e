"""Files of tensors as other projects write them, opened so that a damaged or hostile one costs nothing.

Every function reads a file into a state dict on the CPU, or says in one sentence why not.
"""

from __future__ import annotations

import functools
import operator
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.pretrained.importing.pickles import MOST_BYTES, read_pickle
from simplax.pretrained.importing.records import TensorReference

_DTYPES: dict[str, torch.dtype] = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_MOST_DIMENSIONS = 8


@dataclass(frozen=True)
class Archive:
    """A zip file that `torch.save` wrote: one pickle, and the bytes of each storage stored as they are."""

    path: Path

    def content(self) -> Any:
        """The pickled object, its tensors as references."""
        with self._open() as file:
            names = [name for name in file.namelist() if name.endswith("/data.pkl")]
            if len(names) != 1:
                raise UserError(f"{self.path} is not a checkpoint of torch: it holds no data.pkl.")
            root = names[0].removesuffix("data.pkl")
            if f"{root}byteorder" in file.namelist() and self._entry(file, f"{root}byteorder") != b"little":
                raise UserError(f"{self.path} was written on a big-endian machine: convert it there.")
            data = self._entry(file, names[0])
        return read_pickle(data, str(self.path))

    def tensors(self, references: Mapping[str, TensorReference]) -> dict[str, Tensor]:
        """The tensors that these references stand for; nothing else of the file is read."""
        with self._open() as file:
            root = next(name for name in file.namelist() if name.endswith("/data.pkl")).removesuffix(
                "data.pkl"
            )
            return {name: self._tensor(file, root, name, each) for name, each in references.items()}

    def _tensor(self, file: zipfile.ZipFile, root: str, name: str, reference: TensorReference) -> Tensor:
        storage, shape, stride = reference.storage, reference.shape, reference.stride
        dtype = _DTYPES.get(storage.dtype)
        if dtype is None:
            raise UserError(
                f"{self.path} stores {_short(name)} as {_short(storage.dtype)}, which is not known."
            )
        numbers = (storage.count, reference.offset, *shape, *stride)
        fits = len(shape) == len(stride) <= _MOST_DIMENSIONS and min(numbers) >= 0
        count = functools.reduce(operator.mul, shape, 1)
        if fits and count:
            last = reference.offset + sum((size - 1) * step for size, step in zip(shape, stride))
            fits = last < storage.count and count <= storage.count
        if not fits:
            raise UserError(
                f"{self.path} is damaged: the tensor {_short(name)} does not lie within its storage."
            )
        data = self._entry(file, f"{root}data/{storage.key}")
        if len(data) < storage.count * dtype.itemsize:
            raise UserError(f"{self.path} is damaged: the tensor {_short(name)} has too few bytes.")
        if not storage.count:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(bytearray(data), dtype=dtype, count=storage.count)
        return flat.as_strided(shape, stride, reference.offset).clone()

    def _open(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except FileNotFoundError:
            raise UserError(f"{self.path} does not exist: give a .ckpt file or a model directory.") from None
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror or 'it is no file'}.") from error
        except _ZIP_TROUBLE as error:
            raise UserError(
                f"{self.path} is not a checkpoint of torch 1.6 or newer, or it is damaged: load it where it was "
                "made and save it again."
            ) from error

    def _entry(self, file: zipfile.ZipFile, name: str) -> bytes:
        """One entry, which must be stored as it is: then it is no larger than the file itself."""
        try:
            entry = file.getinfo(name)
            largest = MOST_BYTES if name.endswith("data.pkl") else self.path.stat().st_size
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > largest:
                raise UserError(f"{self.path} is not as torch writes it: {_short(name)} is compressed.")
            if entry.file_size != entry.compress_size or entry.file_size > self.path.stat().st_size:
                raise UserError(f"{self.path} is damaged: {_short(name)} is larger than the file.")
            return file.read(entry)
        except UserError:
            raise
        except (*_ZIP_TROUBLE, OSError) as error:
            raise UserError(
                f"{self.path} is damaged: {_short(name)} is missing or cannot be read."
            ) from error


# what the standard library raises for archives that are truncated, changed or not archives at all
_ZIP_TROUBLE = (
    zipfile.BadZipFile,
    ValueError,
    LookupError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    OverflowError,
)


def _short(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "...")


def load_bin(path: Path) -> dict[str, Tensor]:
    """A state dict that `torch.save` wrote and nothing else, as in `pytorch_model.bin`."""
    archive = Archive(path)
    content = archive.content()
    return archive.tensors(state_dict(content, path))


def state_dict(content: Any, path: Path) -> dict[str, TensorReference]:
    """Names and tensors, and nothing else."""
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} holds no state dict: give the file of a model.")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, TensorReference):
            raise UserError(f"{path} holds more than tensors: give the file of a model.")
    return content
