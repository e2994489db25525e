"""What was proposed here and what became of it (repair R13).

The library says LEADER_CHANGED for a command that commits a moment later, so a client that tries again does it twice;
and a request lost in a reset never calls back. Here a node proposes only as leader, remembers (index, term) of each
proposal, and answers from the log alone: the entry applied at that index has that term, then this is its result; it has
another term, then ours is gone for good. Stepping down decides nothing. What is still open after the deadline is
`unknown`, which is the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NOT_LEADER = "not-leader"
UNKNOWN = "unknown"
OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`result` of apply, or `error`: "not-leader" and "overloaded" did not happen, "unknown" may have.

    `index` is the entry's place in the log, 0 if it never got one.
    """

    result: Any = None
    error: str | None = None
    index: int = 0


Done = Callable[[Outcome], None]


class Pending:
    """Open proposals by index. `bytes` is what they hold; `deadline_s` after proposing one is unknown."""

    def __init__(self, deadline_s: float) -> None:
        self.bytes = 0
        self._deadline_s = deadline_s
        self._open: dict[int, tuple[int, int, float, Done]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, index: int, term: int, size: int, now: float, done: Done) -> None:
        """A command of `size` bytes was appended. One that stood there in an earlier term was overwritten: gone."""
        self._discard(index)
        self._open[index] = (term, size, now + self._deadline_s, done)
        self.bytes += size

    def _discard(self, index: int) -> None:
        found = self._open.pop(index, None)
        if found is not None:
            self.bytes -= found[1]
            found[3](Outcome(error=NOT_LEADER, index=index))

    def applied(self, index: int, term: int, result: Any) -> None:
        """The entry at `index` was applied."""
        found = self._open.pop(index, None)
        if found is None:
            return
        self.bytes -= found[1]
        found[3](Outcome(result, None, index) if found[0] == term else Outcome(error=NOT_LEADER, index=index))

    def expire(self, now: float) -> None:
        """What has been open for too long is unknown. Insertion order is deadline order."""
        while self._open:
            index = next(iter(self._open))
            _term, size, deadline, done = self._open[index]
            if now < deadline:
                return
            del self._open[index]
            self.bytes -= size
            done(Outcome(error=UNKNOWN, index=index))

    def close(self) -> None:
        """The node stops: nobody will learn more."""
        self.expire(float("inf"))
