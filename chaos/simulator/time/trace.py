"""The trace of a run: one hash over all that happened, in order. Two runs of a seed must have the same hash."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

#: This many of the newest notes are kept as text, to show where two traces differ.
KEPT = 2_000


class Trace:
    """Notes of (time, node, what). `now` is true time. Notes are texts and numbers, never objects whose text has a
    memory address."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.count = 0
        self._last: deque[object] = deque(maxlen=KEPT)
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._waiting: list[object] = []

    def note(self, node: str, *what: object) -> None:
        """Note something that happens at or to `node` now."""
        self.count += 1
        self._waiting.append((self._now(), node, what))
        if len(self._waiting) >= KEPT:
            self._fold()

    def hexdigest(self) -> str:
        """The hash of all notes so far."""
        self._fold()
        return self._hash.hexdigest()

    def tail(self) -> list[str]:
        """The newest notes."""
        self._fold()
        return [str(note) for note in self._last]

    def _fold(self) -> None:
        if not self._waiting:
            return
        # No brackets, and always a last comma: the bytes do not depend on the moment of the folding.
        self._hash.update(f"{repr(self._waiting)[1:-1]}, ".encode())
        self._last.extend(self._waiting)
        self._waiting.clear()
