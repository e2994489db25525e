"""The time until which a group may act as the leader. The parts that act for the group ask right before a byte leaves.

The group opens the window anew with each echo of its peers. It closes it in the step in which its term ends or is about
to be given away. The window is three numbers on the machine's monotonic clock, so that a page of shared memory can hold
them.
"""

from __future__ import annotations

from typing import Final

NEVER: Final = float("-inf")


class TrustWindow:
    """The window of one group. `term` is 0 while it is closed. `ahead_s` is the time of the node clock less that of the
    monotonic clock."""

    __slots__ = ("ahead_s", "term", "until_s")

    def __init__(self) -> None:
        self.term, self.until_s, self.ahead_s = 0, NEVER, 0.0

    def open(self, term: int, until_s: float, ahead_s: float) -> None:
        """Let parts act in this term until the monotonic second `until_s`."""
        self.term, self.until_s, self.ahead_s = term, until_s, ahead_s

    def close(self) -> None:
        """Let no part act until the window is opened again."""
        self.term, self.until_s = 0, NEVER

    def covers(self, term: int, lease_end_ms: int, now_s: float) -> bool:
        """True if a hand-over of this term may leave at the monotonic second `now_s`. Its lease ends at `lease_end_ms`
        of the node clock."""
        return term == self.term and now_s < self.until_s and (now_s + self.ahead_s) * 1000 < lease_end_ms


class SentWindow(TrustWindow):
    """The window of hand-overs of another node. They left that node within its window, so they may always go on
    here."""

    __slots__ = ()

    def covers(self, term: int, lease_end_ms: int, now_s: float) -> bool:
        """See TrustWindow."""
        return True
