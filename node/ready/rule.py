"""What the leader asks right before a hand-over: whether units that are ready by the records wait all the same.

A rule decides by what it is given, by the store, and by what its leader service knows. It is asked in
node/ready/record_check.py and nowhere else. What it holds is parked (node/ready/parked.py): out of its window, in
nobody's hands, behind no other unit. Parked units are asked again now and then, and at once when who knows of a change
says so (`HandingOver.ask_again`). No rule is asked of what is not ready, nor of a strict hand-over that is leased and
not begun: who changes a rule's mind withdraws that.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from storage.format.hold_reasons import HoldReason
from storage.wheel.slot import DueUnits

Mask = npt.NDArray[np.bool_]


class Rule(Protocol):
    """One reason to wait, of one term as leader. A unit waits as long as any rule holds it."""

    reason: HoldReason

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """True, shape [n], for units that may not be handed over at this moment. They may be of any topics, and in any
        order. No Python work for each of them: a window may be asked of as a whole."""
