"""The time until which a group may act as the leader. The parts that send for the group check it right before a byte
leaves.

The group opens the window anew with each echo of its peers. It closes the window in the same step in which its term
ends, or in which it begins to give leadership away. The window is three numbers on the machine's monotonic clock, so
that a page of shared memory can hold them.
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
        """Allow hand-overs of this term to leave until the monotonic second `until_s`."""
        self.term, self.until_s, self.ahead_s = term, until_s, ahead_s

    def close(self) -> None:
        """Allow no hand-over to leave until the window is opened again."""
        self.term, self.until_s = 0, NEVER

    def covers(self, term: int, lease_end_ms: int, now_s: float) -> bool:
        """True if a hand-over of this term may leave at the monotonic second `now_s`. Its lease ends at `lease_end_ms`
        of the node clock."""
        return term == self.term and now_s < self.until_s and (now_s + self.ahead_s) * 1000 < lease_end_ms


class SentWindow(TrustWindow):
    """A window for hand-overs that another node made. They left that node within its trust window, so this node may
    always send them on to the client."""

    __slots__ = ()

    def covers(self, term: int, lease_end_ms: int, now_s: float) -> bool:
        """See TrustWindow."""
        return True
