"""The codes of hand-overs that ended while nobody knew their outcome."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U16

CODE_LEASE_ENDED: Final = 1007
CODE_MAX_AGE: Final = 1008
"""The hand-over failed or its lease ended, and the message was too old for another attempt."""
CODE_STOPPED: Final = 1011
"""The leader of the hand-over lost its leadership before it sent the request."""
CODE_RESTORED: Final = 1012
UNHEARD: Final = (CODE_LEASE_ENDED, CODE_STOPPED, CODE_RESTORED)


def nobody_heard(code: U16, ended_ms: I64, lease_end_ms: I64) -> npt.NDArray[np.bool_]:
    """A boolean array, [n]: True where the outcome of a hand-over is unknown. The arguments are the code with which
    each hand-over ended, the time of that end, and the end of its lease.

    With CODE_MAX_AGE the outcome is unknown only if the hand-over ended at the end of its lease, not before.
    """
    unheard: npt.NDArray[np.bool_] = np.isin(code, UNHEARD) | ((code == CODE_MAX_AGE) & (ended_ms >= lease_end_ms))
    return unheard
