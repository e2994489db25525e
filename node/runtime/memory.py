"""How the process uses its memory. Two defaults of the runtime slow a busy node down, and are changed at the start.
Free memory is given back to the kernel from time to time.

glibc gives every block above 128 KiB its own mapping and returns it to the kernel when it is freed. A node handles an
entry of megabytes many times a second (request, columns, entry, frame, records). So the kernel clears and maps the same
pages again and again: a third of all system time under batches. Blocks up to 32 MiB come from the heap instead, which
keeps up to `TRIM_BYTES` of free memory.

Python's garbage collector looks for cycles every 700 allocations. Requests leave hardly any behind, and the look took a
tenth of the processor time of single requests. Here it looks every 10,000 allocations. Objects that survive a look are
looked at again after two more looks, all of them together. 30,000 objects take 6 ms. 120,000 held the loop for 26 to 52
ms, a dozen times while 8,000 consumers connected. Objects that survive that too are looked at after ten million
allocations.

If a block in use lies above free memory, glibc cannot give that memory back by itself. After a crowd of large requests
that was 116 MB. So this module gives it back to the kernel.
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
"""The heap keeps this much free memory at its top. The kernel gets back what is beyond it."""
GIVE_BACK_S: Final = 5.0
"""The time between two looks at the free memory."""
FREE_BYTES: Final = 8 << 20
"""Memory is given back when more than this has become free."""
GROUPS: Final = Path("/sys/fs/cgroup")
"""The directory in which the kernel says how much memory a container or a service may use."""
OWN_GROUPS: Final = Path("/proc/self/cgroup")
"""The file in which the kernel says the control groups of this process."""


def settle_memory() -> None:
    """Set the garbage collector and the heap as the module describes. Call it when all objects are made that live as
    long as the process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 2, 300)
    mallopt = getattr(_LIBC, "mallopt", None)  # other C libraries do not have it, and nothing is set there
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(_TRIM_THRESHOLD, TRIM_BYTES)


class _Heap(ctypes.Structure):
    """The result of glibc's mallinfo2, all in bytes."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ["arena", "a", "b", "c", "d", "e", "f", "used", "free", "top"])


class GiveBack:
    """Gives free memory of glibc's heap back to the kernel, if much has become free since it last did so.

    While it does so, all threads that need memory wait, the event loop too: 7 ms for 100 MB. So it does it before more
    memory is free. It starts no garbage collection, because that would stop a node with many connections for 0.1 s.
    """

    def __init__(self) -> None:
        self._trim = getattr(_LIBC, "malloc_trim", None)
        self._info = getattr(_LIBC, "mallinfo2", None)  # since glibc 2.33
        if self._info is not None:
            self._info.restype = _Heap
        # The values right after memory was last given back, or the smallest ones seen since.
        self._free = 0
        self._resident = resident_bytes()

    def look(self) -> None:
        """Give free memory back if more than FREE_BYTES has become free since this was last done.

        glibc counts memory that was given back as free. If the process has used such memory and freed it again, glibc's
        count is the same as before. Then only the resident memory of the process shows it.
        """
        if self._trim is None or self._info is None:
            return
        free, resident = int(self._info().free), resident_bytes()
        is_back = free > FREE_BYTES and resident > self._resident + FREE_BYTES
        if free > self._free + FREE_BYTES or is_back:
            self._trim(0)
            self._free, self._resident = free, resident_bytes()
        self._free, self._resident = min(self._free, free), min(self._resident, resident)


def resident_bytes() -> int:
    """The resident memory of this process, by Linux's /proc. Without /proc, the most that the process has had so
    far.
    """
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def give_back_often(ended: threading.Event) -> threading.Thread:
    """Start a thread that gives memory back every GIVE_BACK_S, until the process ends or `ended` is set. Return it."""
    memory = GiveBack()

    def run() -> None:
        while not ended.wait(GIVE_BACK_S):
            memory.look()

    thread = threading.Thread(target=run, name="memory", daemon=True)
    thread.start()
    return thread


def memory_bytes(own: Path = OWN_GROUPS, groups: Path = GROUPS) -> int:
    """The memory that this process may use, in bytes. It is the smallest bound that the computer, the control groups of
    the process, or its own limits (RLIMIT_DATA, RLIMIT_AS) set.
    """
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
    """The files that may hold memory bounds: those of this process's control group and of the groups around it. `own`
    names the group, and `groups` is the folder of all groups.

    Control groups of versions 2 and 1 are looked for. In a container its own group is the outermost one.
    """
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
