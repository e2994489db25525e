"""How much longer than configured the silence has to be while nodes are late.

A follower measures gaps between heartbeats. A leader measures the age of echoes. On a busy machine both grow, because
each process on the way waits for a processor. A silence that is too short then ends trust, or begins elections, though
no node failed. Each late moment is recorded as twice its length, the silence that would bridge it with a margin.

The longest one of the last SPAN_S counts, after the RARE longest ones are left out. A single pause, as of a stopped
process, says nothing about the next seconds. A busy machine is late again and again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SPAN_S: Final = 20.0
RARE: Final = 2
"""This many late moments in SPAN_S are left out as exceptions."""
TWICE: Final = 2.0


class Patience:
    """The late moments of one node. `floor_s` is the configured silence. A moment is not recorded if a silence of
    `floor_s` bridges it.
    """

    def __init__(self, floor_s: float) -> None:
        self._floor_s = floor_s
        self._seen: deque[tuple[float, float]] = deque()

    def saw(self, late_s: float, now: float) -> None:
        """Record a late moment of `late_s` seconds, which a silence of twice that length bridges."""
        if TWICE * late_s > self._floor_s:
            self._seen.append((now, TWICE * late_s))

    def silence_s(self, now: float) -> float:
        """Return the length of silence in seconds that bridges the late moments of the last SPAN_S. 0 if the configured
        silence is enough.
        """
        while self._seen and self._seen[0][0] < now - SPAN_S:
            self._seen.popleft()
        if len(self._seen) <= RARE:
            return 0.0
        return sorted((silence for _, silence in self._seen), reverse=True)[RARE]
