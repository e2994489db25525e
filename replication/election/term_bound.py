"""Bounds how far a message may raise the term of this node. A term is a u32 on three disks, and it never goes back.

Without a bound, one frame with the largest possible term would end a cluster. Every node would adopt the term, and no
node could campaign for the next one. So terms end at TERM_MAX (wire/frame_bound.py), and a node takes a later term from
others only within a credit:

    credit: 2^20 terms at most, refilled by 16 a second; each term that a message raises ours by costs one

An honest cluster never meets the bound. A candidate begins a term only if a majority would vote for it (pre-vote), at
most once in each election timeout of 0.4 s. So 2^20 terms are five days of elections without a pause and without a
leader. A node that was away misses only a few terms. With the credit, an attacker needs four years to reach TERM_MAX.
Without it, 2,048 frames are enough. A node that has no term yet has no bound, because it must be able to join a cluster
of any age.

A node that is farther behind than its credit refuses the messages of its cluster, logs that by name, and changes
nothing. It comes back with an empty directory, or by `hourwheel node journal-term` (docs/operating.md).
"""

from __future__ import annotations

from typing import Final

CREDIT: Final = 1 << 20
REFILL_S: Final = 16


class TermBound:
    """How far messages may still raise the term of this process: its credit in terms, full at the start. Times are
    seconds of the monotonic clock.
    """

    def __init__(self, now: float) -> None:
        self._credit = float(CREDIT)
        self._at = now

    def allows(self, own: int, term: int, now: float) -> bool:
        """True if a node in term `own` may take a message of term `term`."""
        return term <= own or not own or term - own <= self._credit_at(now)

    def rose(self, own: int, term: int, now: float) -> None:
        """Subtract from the credit, because a message raised this node's term from `own` to `term`."""
        if own:
            self._credit, self._at = max(0.0, self._credit_at(now) - (term - own)), now

    def _credit_at(self, now: float) -> float:
        return min(float(CREDIT), self._credit + (now - self._at) * REFILL_S)
