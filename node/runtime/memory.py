"""How the process uses its memory. Two defaults of the runtime cost a busy node much, and are set once at start. Free
memory is given back to the kernel from time to time.

glibc gives every block above 128 KiB its own mapping and returns it to the kernel when it is freed. A node handles an
entry of megabytes many times a second (request, columns, entry, frame, records). So the kernel clears and maps the same
pages again and again: a third of all system time under batches. Blocks up to 32 MiB come from the heap instead, which
keeps up to `TRIM_BYTES` of free memory.

Python looks for cycles every 700 allocations. Requests leave hardly any behind, and the look cost a tenth of the
processor time of single requests. Here it looks every 10,000. Objects that outlive a look are looked at again together
with the next two. 30,000 objects are 6 ms. 120,000 held the loop for 26 to 52 ms, a dozen times while 8,000 consumers
came. Objects that outlive that wait for ten million allocations.

Free memory stays with the process where a block in use lies above it: 116 MB behind a crowd of large requests. So it is
given back to the kernel.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None)
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

MMAP_BYTES: Final = 32 << 20
"""The largest value that glibc takes."""
TRIM_BYTES: Final = 64 << 20
"""Free memory at the top of the heap that is kept. Past it the kernel gets it back."""
GIVE_BACK_S: Final = 5.0
"""How often to look if much memory is free."""
FREE_BYTES: Final = 8 << 20
"""So much memory has to have become free."""
GROUPS: Final = Path("/sys/fs/cgroup")
"""The files in which the kernel tells what a container or a service may use."""
OWN_GROUPS: Final = Path("/proc/self/cgroup")
"""The file in which it tells the control groups of this process."""


def settle_memory() -> None:
    """Call when everything that lives as long as the process has been made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 2, 300)
    mallopt = getattr(_LIBC, "mallopt", None)  # another C library has none, and goes without
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(_TRIM_THRESHOLD, TRIM_BYTES)


class _Heap(ctypes.Structure):
    """The numbers that mallinfo2 tells of glibc's heap, all in bytes."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ["arena", "a", "b", "c", "d", "e", "f", "used", "free", "top"])


class GiveBack:
    """Returns free pages of glibc's heap to the kernel, where many have become free since the last time.

    All parts that need memory meanwhile wait, the event loop too: 7 ms for 100 MB. So free memory is not left to grow
    further. Python's garbage is left to its own looks, because a forced one would stop a node with many connections for
    0.1 s.
    """

    def __init__(self) -> None:
        self._trim = getattr(_LIBC, "malloc_trim", None)
        self._info = getattr(_LIBC, "mallinfo2", None)  # since glibc 2.33
        if self._info is not None:
            self._info.restype = _Heap
        # The values of the last look, or the least since memory was given back.
        self._free = 0
        self._resident = resident_bytes()

    def look(self) -> None:
        """Give back the memory that became free, if it is much. Memory that was given back counts as free as well. If
        it was used and freed between two looks, only the pages of the process show that."""
        if self._trim is None or self._info is None:
            return
        free, resident = int(self._info().free), resident_bytes()
        is_back = free > FREE_BYTES and resident > self._resident + FREE_BYTES
        if free > self._free + FREE_BYTES or is_back:
            self._trim(0)
            self._free, self._resident = free, resident_bytes()
        self._free, self._resident = min(self._free, free), min(self._resident, resident)


def resident_bytes() -> int:
    """The resident memory of this process, as Linux tells it; without /proc the most that it ever had."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def give_back_often(ended: threading.Event) -> threading.Thread:
    """Give memory back until the process ends, or `ended` is set."""
    memory = GiveBack()

    def run() -> None:
        while not ended.wait(GIVE_BACK_S):
            memory.look()

    thread = threading.Thread(target=run, name="memory", daemon=True)
    thread.start()
    return thread


def memory_bytes(own: Path = OWN_GROUPS, groups: Path = GROUPS) -> int:
    """How much memory this process may use, by the machine, its container, its service and its own limits."""
    bounds = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _limits(own, groups):
        try:
            text = path.read_text()
        except OSError:
            continue
        if text.strip().isdigit():  # "max": no limit
            bounds.append(int(text))
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            bounds.append(soft)
    return min(bounds)


def _limits(own: Path, groups: Path) -> Iterator[Path]:
    """The files of this process's control group and of those around it, of version 2 and of version 1. A container sees
    its own group as the outermost one."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = ["0::/", "1:memory:/"]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root, name = (groups / "memory", "memory.limit_in_bytes") if controllers else (groups, "memory.max")
        if not controllers or "memory" in controllers.split(","):
            inmost = root / path.lstrip("/")
            yield from (each / name for each in (inmost, *inmost.parents) if each.is_relative_to(root))
