"""Writing so that a reader sees the old file or the new one, whole, whenever the writer was killed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from torch import Tensor


def sync(path: Path) -> None:
    """Ask the disk to hold the file, or the directory's list of names, before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write a file under, which then takes the place of `path`; where a link stands, of the file it names.

    Nobody else has that name: several processes, also of several machines, may write the same result side by side.
    """
    path = path.resolve()
    temporary = _unique(path)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def _unique(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid4().hex[:8]}.tmp")


def remove_unfinished(directory: Path) -> None:
    """Remove what processes that were killed had begun to write here; only while nobody else may write here."""
    for path in directory.glob(".*.tmp"):
        if not path.is_dir():
            path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a small file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def create_json(path: Path, value: Any) -> bool:
    """Make a file, whole, unless there is one: then nothing happens."""
    temporary = _unique(path)
    try:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        sync(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                return False
            os.replace(temporary, path)
        return True
    finally:
        temporary.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Replace a safetensors file atomically, with the rights of any new file: the library lets only its owner read it.

    The format stores no aliases, so weights that share memory are written out twice.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        separate[name] = tensor.clone() if tensor.data_ptr() in seen else tensor.contiguous()
        seen.add(tensor.data_ptr())
    with replacing(path) as temporary:
        try:
            save_file(separate, temporary, metadata=metadata)
        except (
            SafetensorError
        ) as error:  # a full disk, for instance, as anything else that writes would say it
            found = re.search(r"os error (\d+)", str(error))
            if found is None:
                raise
            number = int(found[1])
            raise OSError(number, os.strerror(number), str(path)) from error
        mask = os.umask(0o077)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to write into that appears as `path` once it is complete; on failure nothing appears.

    Into a directory with something in it the files are moved at the end, one by one, in the order of their names.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _unique(path)
    temporary.mkdir()
    try:
        yield temporary
        sync(temporary)
        if path.is_dir() and any(path.iterdir()):
            for file in sorted(temporary.iterdir()):
                os.replace(file, path / file.name)
            sync(path)
        else:
            os.rename(temporary, path)
            sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sha256(path: Path) -> str:
    """The digest of a file, or of the names and digests of the files in a directory."""
    if path.is_dir():
        return combined({file.name: sha256(file) for file in path.iterdir()})
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def combined(digests: dict[str, str]) -> str:
    """The digest of a directory, from those of its files by name."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
