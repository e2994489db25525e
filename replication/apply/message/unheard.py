"""Codes of hand-overs that ended with an unknown outcome."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U16

CODE_LEASE_ENDED: Final = 1007
CODE_MAX_AGE: Final = 1008
"""Either it failed, and the message was too old to be tried again, or its lease ended and the message was too old."""
CODE_STOPPED: Final = 1011
"""Its leader stopped leading before the request was sent."""
CODE_RESTORED: Final = 1012
UNHEARD: Final = (CODE_LEASE_ENDED, CODE_STOPPED, CODE_RESTORED)


def nobody_heard(code: U16, ended_ms: I64, lease_end_ms: I64) -> npt.NDArray[np.bool_]:
    """True for hand-overs that failed with these codes at these times and whose outcome is unknown, [n]."""
    unheard: npt.NDArray[np.bool_] = np.isin(code, UNHEARD) | ((code == CODE_MAX_AGE) & (ended_ms >= lease_end_ms))
    return unheard
