"""Rules that the leader asks right before a hand-over: may a unit that is ready by the records go now, or does it wait?

A rule decides by what it is given, by the store, and by what its leader service knows. It is asked in
node/ready/record_check.py and nowhere else. A unit that a rule holds is parked (node/ready/held_units.py): it is out of
its window, with no consumer, and behind no other unit. Parked units are asked again now and then, and at once after
`HandingOver.ask_again`. Rules are not asked of units that are not ready. They are also not asked of a strict hand-over
that is leased and has not begun. The part that changes a rule's mind withdraws it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from storage.format.hold_reasons import HoldReason
from storage.wheel.slot import DueUnits

Mask = npt.NDArray[np.bool_]


class Rule(Protocol):
    """A reason to wait, of one term as leader. A unit waits as long as any rule holds it."""

    reason: HoldReason

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """True, shape [n], for units that may not be handed over at this moment. They may be of any topics, in any
        order. Python must not work on each of them, because a whole window may be asked about at once."""
