"""Rows of fixed size out of a file, straight into one array: no Python per row, and never through a mapping.

A mapping of a file that its node cuts at a restart ends the reader with SIGBUS; pread gives a shorter answer instead.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.format.rows import HEADER_SIZE, Corrupt, FileHeader

Rows = npt.NDArray[np.void]
Bytes = npt.NDArray[np.uint8]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor to read from. Raises FileNotFoundError or another OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def read_bytes(fd: int, size: int, offset: int) -> Bytes:
    """Up to `size` bytes from `offset`, shape [n]; fewer only where the file ends."""
    data = np.empty(max(0, size), np.uint8)
    view, done = data.data, 0
    while done < len(data):
        got = os.preadv(fd, [view[done:]], offset + done)
        if not got:
            break
        done += got
    return data[:done]


def read_rows(path: Path, dtype: np.dtype[Any], first: int, count: int) -> Rows:
    """Rows first .. first + count of a file that begins with a file header, as they stand; fewer where it ends."""
    with opened(path) as fd:
        data = read_bytes(fd, count * dtype.itemsize, HEADER_SIZE + first * dtype.itemsize)
    whole = len(data) // dtype.itemsize
    return data[: whole * dtype.itemsize].view(dtype)


def whole_rows(size: int, dtype: np.dtype[Any]) -> int:
    """How many whole rows a file of `size` bytes holds behind its header; half a row at the end is none."""
    return max(0, size - HEADER_SIZE) // dtype.itemsize


def read_header(path: Path, magic: bytes) -> FileHeader | None:
    """The header of a file of this kind; None if it was not written whole, which nothing can stand behind.

    Raises Corrupt (not what was written) or FormatRefused (another version), OSError.
    """
    with opened(path) as fd:
        data = read_bytes(fd, HEADER_SIZE, 0).tobytes()
    name = f"{path.parent.name}/{path.name}"
    if len(data) < HEADER_SIZE or not any(data):
        return None
    header = FileHeader.decode(data, name)
    if header.magic != magic:
        raise Corrupt(name, 0, "magic", header.magic, magic)
    return header
