"""The trace of a run: one hash over everything that happened, in order. Two runs of a seed must have the same."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

#: The last notes are kept as text: what two traces differ in is found near the end.
KEPT = 2_000


class Trace:
    """Notes of (time, node, what); `now` is true time. Texts and numbers only: nothing whose print is an address."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.count = 0
        self.last: deque[str] = deque(maxlen=KEPT)
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._waiting: list[str] = []

    def note(self, node: str, *what: object) -> None:
        """Something happened at or to `node` now."""
        self.count += 1
        self._waiting.append(f"{self._now():.9f} {node} {' '.join(map(str, what))}\n")
        if len(self._waiting) >= KEPT:
            self._fold()

    def hexdigest(self) -> str:
        """The hash of all notes so far."""
        self._fold()
        return self._hash.hexdigest()

    def tail(self) -> list[str]:
        """The newest notes."""
        self._fold()
        return list(self.last)

    def _fold(self) -> None:
        self._hash.update("".join(self._waiting).encode())
        self.last.extend(self._waiting)
        self._waiting.clear()
