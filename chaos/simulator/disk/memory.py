"""Finds a place in memory for files that need no disk."""

import shutil
from pathlib import Path
from typing import Final

_SHARED_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 1 << 30
"""A container has 64 MiB there by default. Nodes would find their disk full."""


def in_memory() -> Path | None:
    """A file system in memory, if the system has one with room."""
    if _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES:
        return _SHARED_MEMORY
    return None
