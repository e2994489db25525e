"""How long a silence the lateness of nodes asks for.

A follower sees gaps between heartbeats. A leader sees the age of echoes. On a busy machine both grow, because every
part of the way waits for a processor. A silence that is too short then ends trust, or begins elections, though no node
failed. Each late moment is recorded as the silence that would bridge it twice over.

The worst moment of the last SPAN_S counts, without the RARE worst ones. A single pause, as of a stopped process, says
nothing about the next seconds. A busy machine is late again and again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SPAN_S: Final = 20.0
RARE: Final = 2
"""This many moments in SPAN_S may be worse than the silence asked for."""
TWICE: Final = 2.0


class Patience:
    """The late moments of one node. `floor_s`: the silence that is owed anyway; shorter ones are not kept."""

    def __init__(self, floor_s: float) -> None:
        self._floor_s = floor_s
        self._seen: deque[tuple[float, float]] = deque()

    def saw(self, late_s: float, now: float) -> None:
        """Record a late moment of `late_s`: a silence of that length would just have bridged it."""
        if TWICE * late_s > self._floor_s:
            self._seen.append((now, TWICE * late_s))

    def silence_s(self, now: float) -> float:
        """Return the silence to ask for. 0 if the usual one is enough."""
        while self._seen and self._seen[0][0] < now - SPAN_S:
            self._seen.popleft()
        if len(self._seen) <= RARE:
            return 0.0
        return sorted((silence for _, silence in self._seen), reverse=True)[RARE]
