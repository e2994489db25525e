"""Finds a place in memory for files that need no disk."""

import shutil
from pathlib import Path
from typing import Final

_SHARED_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 1 << 30
"""The bytes that must be free. A container has 64 MiB in /dev/shm by default: nodes would find their disk full."""


def in_memory() -> Path | None:
    """The directory of a file system in memory. None if the system has none with _ROOM_BYTES free."""
    if _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES:
        return _SHARED_MEMORY
    return None
