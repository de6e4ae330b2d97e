"""Compressed files, expanded once so that they can be read from any point; files that are not what they are called."""

from __future__ import annotations

import atexit
import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from simplax.data.text.documents import START, Cursor, Documents, Extent, Piece
from simplax.errors import UserError

_READ = 1 << 14
# how files of a kind begin, and what a file that begins so is
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "compressed by gzip: let its name end in .gz"),
    (b"BZh", "compressed by bzip2: let its name end in .bz2"),
    (b"\xfd7zXZ\x00", "compressed by xz: let its name end in .xz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstandard: let its name end in .zst"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"PAR1", "a Parquet file: let its name end in .parquet"),
    (b"\x93NUMPY", "an array of numpy: let its name end in .npy"),
    (b"\x89HDF", "an HDF5 file: write its sequences in another format"),
    (b"\xff\xfe", "UTF-16 text: convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16 text: convert it to UTF-8"),
    (b"version https://git-lfs", "a pointer of Git LFS and not the data: fetch the data with `git lfs pull`"),
)


def check_beginning(path: Path, own: tuple[bytes, ...] = ()) -> None:
    """Refuse a file that begins like one of another kind; `own` are beginnings that belong there."""
    with open(path, "rb") as file:
        head = file.read(32)
    for mark, what in _BEGINNINGS:
        if head.startswith(mark) and mark not in own:
            raise UserError(f"{path} is {what}.")


def _zstandard(path: Path) -> Iterator[bytes]:
    """By the frame, because the library's file objects end a file that was cut short without a word."""
    try:
        import zstandard
    except ImportError as error:
        raise UserError('files that end in .zst need zstandard: pip install "simplax[zst]".') from error
    inside = False
    with open(path, "rb") as file:
        data, frame = file.read(_READ), zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        while data:
            try:
                yield frame.decompress(data)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from None
            inside = not frame.eof
            data = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
            data = data or file.read(_READ)
    if inside:
        raise EOFError("it ends inside a frame")


def _by(opener: Callable[[Path, Any], Any]) -> Callable[[Path], Iterator[bytes]]:
    def chunks(path: Path) -> Iterator[bytes]:
        with opener(path, "rb") as file:
            while chunk := file.read(1 << 20):
                yield chunk

    return chunks


COMPRESSIONS: dict[str, Callable[[Path], Iterator[bytes]]] = {
    ".gz": _by(gzip.open),
    ".bz2": _by(bz2.open),
    ".xz": _by(lzma.open),
    ".zst": _zstandard,
}


def inner_name(path: Path) -> Path:
    """The name without the ending of a compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def expand(path: Path, folder: Path) -> Path:
    """The file as it is, or its content in `folder`, made now unless it is there."""
    chunks = COMPRESSIONS.get(path.suffix.lower())
    if chunks is None:
        return path
    if not path.is_file() or not path.stat().st_size:
        raise UserError(f"{path} is empty or not a file: remove it or name another source.")
    stat = path.stat()
    # two files of one name may be of the same size and time, as archives restore them
    place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    target = folder / f"{place}-{stat.st_size:x}-{stat.st_mtime_ns:x}" / inner_name(path).name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            for chunk in _read(chunks(path), path):
                file.write(chunk)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _read(chunks: Iterator[bytes], path: Path) -> Iterator[bytes]:
    try:
        yield from chunks
    except UserError:
        raise
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UserError(
            f"{path} is damaged, cut short or not compressed as its name says: {reason}."
        ) from None


@cache
def temporary_folder() -> Path:
    """Where files are expanded when nobody says where; removed when the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="simplax-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def naming(plain: Iterable[Path], named: Iterable[Path]) -> Iterator[None]:
    """Complaints about expanded files name the files that the user knows."""
    try:
        yield
    except UserError as error:
        text = str(error)
        for inner, outer in zip(plain, named):
            text = text.replace(str(inner), str(outer))
        raise UserError(text) from None


@dataclass(frozen=True)
class Expanded(Documents):
    """Documents of compressed files: `inner` reads what was expanded, `paths` are the files that were named."""

    inner: Documents
    paths: tuple[Path, ...]

    @property
    def width(self) -> int | None:
        return self.inner.width

    def outline(self) -> Iterator[Extent]:
        with naming(self.inner.paths, self.paths):
            yield from self.inner.outline()

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        with naming(self.inner.paths, self.paths):
            yield from self.inner.read(cursor)
