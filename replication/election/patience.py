"""How long a silence the lateness of nodes asks for.

A follower hears heartbeats with gaps, a leader counts echoes of an age. On a busy machine both grow: every part of the
way waits for a processor. A silence that is too short then ends trust, or begins elections, though nobody failed.
Each moment of lateness is told here as the silence that would bridge it twice over.

What counts is the worst moment of the last SPAN_S but for the RARE worst ones. A single pause, as of a process that was
stopped, says nothing about the next seconds; a busy machine is late again and again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SPAN_S: Final = 20.0
RARE: Final = 2
"""So many moments in SPAN_S may be worse than what is asked for."""
TWICE: Final = 2.0


class Patience:
    """What one node saw lately. `floor_s`: a silence that is owed anyway; less is not kept."""

    def __init__(self, floor_s: float) -> None:
        self._floor_s = floor_s
        self._seen: deque[tuple[float, float]] = deque()

    def saw(self, late_s: float, now: float) -> None:
        """A silence of this length would just have bridged what was late."""
        if TWICE * late_s > self._floor_s:
            self._seen.append((now, TWICE * late_s))

    def silence_s(self, now: float) -> float:
        """The silence to ask for; 0 if the usual one does."""
        while self._seen and self._seen[0][0] < now - SPAN_S:
            self._seen.popleft()
        if len(self._seen) <= RARE:
            return 0.0
        return sorted((silence for _, silence in self._seen), reverse=True)[RARE]
