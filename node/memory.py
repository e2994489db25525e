"""How the process uses its memory: two defaults of the runtime that cost a busy node much, set once at start.

glibc gives every block above 128 KiB its own mapping and returns it to the kernel when it is freed. A node handles an
entry of megabytes many times a second (request, columns, entry, frame, records), so that the kernel clears and maps
the same pages again and again: a third of all system time under batches. Blocks up to 32 MiB come from the heap
instead, which keeps up to `TRIM_BYTES` of free memory.

Python looks for cycles every 700 allocations; requests leave hardly any behind, and the look cost a tenth of the
processor time of single requests. What does come up is still collected, 50,000 allocations later.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

MMAP_BYTES: Final = 32 << 20
"""The largest value glibc takes."""
TRIM_BYTES: Final = 128 << 20
"""Free memory at the top of the heap that is kept; past it the kernel gets it back."""


def settle_memory() -> None:
    """Call when everything that lives as long as the process has been made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # another C library has none, and goes without
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(_TRIM_THRESHOLD, TRIM_BYTES)
