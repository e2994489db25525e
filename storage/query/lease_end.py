"""When a lease ends for whoever leads by now."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import I64


def lease_ends_ms(told_ms: I64, lease_term: npt.NDArray[np.unsignedinteger[Any]], term: int) -> I64:
    """When leases end, [n], for the leader of `term`. `told_ms`: by the clock of whoever gave them. The clock of a
    leader before may have been behind by CLOCKS_MS, so its leases end so much later by the clock of this one."""
    return told_ms + np.where(lease_term < term, np.int64(CLOCKS_MS), np.int64(0))
