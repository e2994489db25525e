"""The proposals of this node, and their outcomes (repair R13).

The library says LEADER_CHANGED for a command that commits a moment later. So a client that tries again does it twice.
And a request lost in a reset never calls back. Here a node proposes only as leader, and remembers (index, term) of each
proposal. It answers from the log alone. If the entry applied at that index has that term, its result is the answer. If
the entry has another term, the proposal is lost for good. Stepping down decides nothing. A proposal that is still open
after the deadline gets `unknown`, because it may still be applied.

An applied entry of a later term decides more than its own index. Terms never fall along a log, and an applied entry is
in every later leader's log. So behind an entry of term t no entry of an earlier term ever comes. An open proposal of an
earlier term at a later index is lost for good. So a deposed leader knows all its outcomes when it applies its
successor's first entry, before the deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NOT_LEADER = "not-leader"
UNKNOWN = "unknown"
OVERLOADED = "overloaded"
CHANGING = "changing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a proposal: the `result` of apply, or an `error`.

    "not-leader", "overloaded" and "changing" (a change of members while another is under way): the command is not
    applied. "unknown": it may be applied. `index` is the entry's place in the log, 0 if it never got one.
    """

    result: Any = None
    error: str | None = None
    index: int = 0


Done = Callable[[Outcome], None]


class Pending:
    """Open proposals by index. `bytes` is their size together. A proposal gets `unknown` `deadline_s` after it was
    made.
    """

    def __init__(self, deadline_s: float) -> None:
        self.bytes = 0
        self._deadline_s = deadline_s
        self._open: dict[int, tuple[int, int, float, Done]] = {}
        self._applied_term = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, index: int, term: int, size: int, now: float, done: Done) -> None:
        """Add a proposal of `size` bytes that was appended at `index`. `done` gets its outcome. An older proposal at
        this index was overwritten in the log, so it gets NOT_LEADER.
        """
        self._discard(index)
        self._open[index] = (term, size, now + self._deadline_s, done)
        self.bytes += size

    def _discard(self, index: int) -> None:
        found = self._open.pop(index, None)
        if found is not None:
            self.bytes -= found[1]
            found[3](Outcome(error=NOT_LEADER, index=index))

    def applied(self, index: int, term: int, result: Any) -> None:
        """Answer the proposal at `index`, whose entry was applied. Open proposals of earlier terms get NOT_LEADER."""
        found = self._open.get(index)
        if found is not None and found[0] == term:
            del self._open[index]
            self.bytes -= found[1]
            found[3](Outcome(result, None, index))
        else:
            self._discard(index)
        if term > self._applied_term:
            self._applied_term = term
            for gone in [each for each, (proposed, *_) in self._open.items() if proposed < term]:
                self._discard(gone)

    def expire(self, now: float) -> None:
        """Answer `unknown` to proposals whose deadline has passed. The first one added has the earliest deadline."""
        while self._open:
            index = next(iter(self._open))
            _term, size, deadline, done = self._open[index]
            if now < deadline:
                return
            del self._open[index]
            self.bytes -= size
            done(Outcome(error=UNKNOWN, index=index))

    def close(self) -> None:
        """Answer `unknown` to all open proposals, because the node stops."""
        self.expire(float("inf"))
