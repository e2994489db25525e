"""The id of this run of the computer's kernel. Data that a process wrote and did not sync is lost when that run ends,
not before.

Linux draws an id at each boot. On other systems a number is drawn for each process. Then data of a killed process
counts as perhaps lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from node.runtime.entropy import Entropy
from storage.file.disk import Disk, DiskFailed

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def read_boot(disk: Disk, entropy: Entropy, path: Path = _BOOT_ID) -> int:
    """The first 64 bits of the kernel's boot id as a number, never 0. If the system has no such id, a random number."""
    try:
        fd = disk.open_read(path)
        try:
            digits = disk.read(fd, 64, 0).replace(b"-", b"").strip()
        finally:
            disk.close(fd)
        drawn = bytes.fromhex(digits.decode())[:8]
    except (FileNotFoundError, DiskFailed, ValueError):
        drawn = b""
    return int.from_bytes(drawn if len(drawn) == 8 else entropy.bytes(8), "little") or 1
