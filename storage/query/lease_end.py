"""The end of a lease by the clock of the present leader."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import I64


def lease_ends_ms(told_ms: I64, lease_term: npt.NDArray[np.unsignedinteger[Any]], term: int) -> I64:
    """The times at which leases end, [n], by the clock of the leader of `term`. `told_ms` are their ends by the clocks
    of the leaders that gave them.

    The clock of a former leader may have been behind by CLOCKS_MS. So its leases end CLOCKS_MS later by this leader's
    clock.
    """
    return told_ms + np.where(lease_term < term, np.int64(CLOCKS_MS), np.int64(0))
