"""Paces an operation that a client wants at a rate."""

from __future__ import annotations

from typing import Final

#: An operation at a rate changes the messages of about so many seconds at a time.
SLICE_S: Final = 0.05


class Pace:
    """Gives out at most `rate` messages a second, None for any number. What was not taken in time is not made up."""

    def __init__(self, rate: int | None) -> None:
        self._rate, self._free_s = rate, 0.0

    def wait_s(self, now_s: float) -> float:
        """So long until the next messages may be changed."""
        return max(0.0, self._free_s - now_s)

    def most(self, limit: int) -> int:
        """So many may be changed at a time."""
        return limit if self._rate is None else min(limit, max(1, round(self._rate * SLICE_S)))

    def took(self, count: int, now_s: float) -> None:
        """Note that so many were given out."""
        if self._rate is not None:
            self._free_s = max(self._free_s, now_s) + count / self._rate
