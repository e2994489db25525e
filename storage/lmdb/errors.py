"""Turns LMDB's errors into ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from storage.file.disk import DiskFailed
from storage.format.rows import Corrupt
from storage.lmdb.table import DAMAGED


@contextmanager
def lmdb_errors(operation: str, path: Path) -> Iterator[None]:
    """Raise Corrupt if LMDB's pages do not hold together or lack a table, DiskFailed for all other errors."""
    try:
        yield
    except (*DAMAGED, lmdb.NotFoundError) as error:
        raise Corrupt(f"{path}/data.mdb", 0, "LMDB", error, "whole pages") from error
    except lmdb.Error as error:
        # Codes above zero are the operating system's. LMDB's own (map full, ...) are below zero and no errno.
        raise DiskFailed(f"lmdb {operation} ({error})", str(path), max(getattr(error, "code", 0), 0)) from error
