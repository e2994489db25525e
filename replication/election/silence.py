"""The silence a node owes a leader: for how long after hearing it the node elects nobody else.

Trust rests on it. A leader that counted on its own timeouts would be wrong where a voter has shorter ones, as while
`[raft]` times are changed one restart after the other. So each echo says what its sender owes, and trust follows what a
majority owes (trust.py). Two rules make that safe:

- **Longer at once, shorter only when it has run out.** What was owed for an earlier heartbeat is owed until it ends
  (`Election.heard_leader` never shortens it), whatever a later echo says.
- **A restart forgets nothing.** `kept_s`, on disk, is never below a silence that still runs. After a start the node is
  silent for `kept_s`. So the disk is written before the first echo that says more.

The silence grows past the configured one while nodes are late (patience.py): in STEPS, and the disk follows downwards
only after `LOWER_S`, so that it is written seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STEPS: Final = (1.0, 1.5, 2.0, 3.0, 4.0)
"""What the configured silence may be multiplied with."""
LOWER_S: Final = 60.0
"""The disk says less this long after the longer silence has run out."""


def _nothing(_: float) -> None:
    return


def _yes() -> bool:
    return True


class Silence:
    """One node's, in seconds. `promise_s` is what echoes say. Invariant: promise_s <= kept_s."""

    def __init__(self, least_s: float, kept_s: float, now: float) -> None:
        """`least_s`: as configured. `kept_s`: what the disk says, at least that much."""
        assert kept_s >= least_s, (kept_s, least_s)
        self.promise_s = self._least_s = least_s
        self.kept_s = kept_s
        self.on_keep: Callable[[float], None] = _nothing
        """Make so many seconds durable off the loop, then call `kept`. Without it the silence never grows."""
        self.may_grow: Callable[[], bool] = _yes
        """Whether a longer silence would be kept whatever is started on this disk: an older build would forget it."""
        self._longer_until_s = now + kept_s
        self._asking = False

    def owe(self, now: float) -> float:
        """A leader was heard: until when nobody else is elected."""
        if self.promise_s > self._least_s:
            self._longer_until_s = now + self.promise_s
        return now + self.promise_s

    def want(self, seconds: float, now: float) -> None:
        """The lateness of nodes asks for so much. It is told at once as far as the disk allows."""
        wanted_s = self._step(seconds) if self.may_grow() else self._least_s
        if wanted_s > self.kept_s:
            self._ask(wanted_s)
        elif wanted_s == self._least_s < self.kept_s and now >= self._longer_until_s + LOWER_S and not self._asking:
            self.kept_s = self._least_s  # before it is on disk: from here on no more than this is told
            self._ask(self._least_s)
        self.promise_s = min(wanted_s, self.kept_s)

    def kept(self, seconds: float) -> None:
        """The disk says so now."""
        self.kept_s = max(self.kept_s, seconds)
        self._asking = False

    def _ask(self, seconds: float) -> None:
        if not self._asking:
            self._asking = True
            self.on_keep(seconds)

    def _step(self, seconds: float) -> float:
        steps = [self._least_s * step for step in STEPS]
        return next((step for step in steps if step >= seconds), steps[-1])
