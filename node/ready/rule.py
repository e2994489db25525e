"""Rules: reasons for which a leader does not hand over a unit now, though its settle records say that it is ready.

A rule decides by its arguments, by the store, and by what its leader service knows. Only node/ready/record_check.py
asks rules, right before a hand-over. A unit that a rule holds is parked (node/ready/held_units.py): it is out of its
window and delays no other unit. The rules are asked about parked units again every 100 ms, and at once after
`HandingOver.ask_again`. A rule may also leave its units out, so that they take no memory.

Rules are not asked about units that are not ready. They are also not asked again about a strict hand-over that is
leased ahead. So a service whose rule begins to hold such units must take those leases back (Strict.withdraw_places).
"""

from __future__ import annotations

from typing import Protocol

from storage.format.array import U64, Mask
from storage.format.hold_reasons import HoldReason
from storage.wheel.slot import DueUnits


class Rule(Protocol):
    """A reason to wait, made anew for each term as leader. A unit waits as long as any rule holds it."""

    reason: HoldReason
    leaves_out: bool
    """True if the units that it holds are not even parked, because they go elsewhere. They take no room in memory then.
    The rule's service calls `HandingOver.ask_again` when some of them may go after all."""

    def may_hold(self, positions: U64) -> bool:
        """False if it surely holds none of these units at this moment, so that it need not be asked."""

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """True, shape [n], for units that may not be handed over at this moment. The units may be of any topics, in any
        order. A whole window may be asked about at once, so the rule must work on columns and not unit by unit."""
