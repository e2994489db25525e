"""The space of a file system that is kept free. Work that goes on when new work is refused needs it
(node/runtime/free_space.py)."""

from pathlib import Path
from typing import Final

from storage.file.disk import Disk

RESERVE_BYTES: Final = 1 << 30
RESERVE_SHARE: Final = 0.05


def reserve_bytes(directory: Path, disk: Disk) -> int:
    """How many bytes of the directory's file system are kept free: 5 % of its size, and at least 1 GiB."""
    return max(RESERVE_BYTES, int(disk.total_bytes(directory) * RESERVE_SHARE))


def is_short(directory: Path, disk: Disk, needed: int = 0) -> bool:
    """True if less than the reserve is free, or would be after `needed` more bytes."""
    return disk.free_bytes(directory) - needed < reserve_bytes(directory, disk)
