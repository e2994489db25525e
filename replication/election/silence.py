"""The silence a node owes a leader: for so long after hearing it, the node elects no other.

Trust rests on it. A leader that counted on its own timeouts would be wrong where a voter has shorter ones. That happens
while `[raft]` times are changed one restart after the other. So each echo says what its sender owes, and trust follows
what a majority owes (trust.py). Two rules make that safe:

- **Longer at once, shorter only when it has run out.** The silence owed for an earlier heartbeat is owed until it ends,
  whatever a later echo says. `Election.heard_leader` never shortens it.
- **A restart forgets nothing.** `kept_s`, on disk, is never below a silence that still runs. After a start the node is
  silent for `kept_s`. So the disk is written before the first echo that says more.

The silence grows past the configured one while nodes are late (patience.py). It grows in STEPS. The disk follows
downwards only after `LOWER_S`, so it is written seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STEPS: Final = (1.0, 1.5, 2.0, 3.0, 4.0)
"""Factors of the configured silence."""
LOWER_S: Final = 60.0
"""The disk says less only this long after the longer silence has run out."""


def _nothing(_: float) -> None:
    return


def _yes() -> bool:
    return True


class Silence:
    """The silence of one node, in seconds. Echoes say `promise_s`. Invariant: promise_s <= kept_s."""

    def __init__(self, least_s: float, kept_s: float, now: float) -> None:
        """`least_s`: the configured silence. `kept_s`: the silence on disk, at least `least_s`."""
        assert kept_s >= least_s, (kept_s, least_s)
        self.promise_s = self._least_s = least_s
        self.kept_s = kept_s
        self.on_keep: Callable[[float], None] = _nothing
        """Make so many seconds durable off the loop, then call `kept`. Without it the silence never grows."""
        self.may_grow: Callable[[], bool] = _yes
        """True if every build that may start on this disk keeps a longer silence. An older build would forget it."""
        self._longer_until_s = now + kept_s
        self._asking = False

    def owe(self, now: float) -> float:
        """Note that a leader was heard. Return the time until which this node elects no other."""
        if self.promise_s > self._least_s:
            self._longer_until_s = now + self.promise_s
        return now + self.promise_s

    def want(self, seconds: float, now: float) -> None:
        """Take the silence that the nodes' lateness asks for. It holds at once, as far as the disk allows."""
        wanted_s = self._step(seconds) if self.may_grow() else self._least_s
        if wanted_s > self.kept_s:
            self._ask(wanted_s)
        elif wanted_s == self._least_s < self.kept_s and now >= self._longer_until_s + LOWER_S and not self._asking:
            self.kept_s = self._least_s  # before the disk has it: from here on echoes say no more than this
            self._ask(self._least_s)
        self.promise_s = min(wanted_s, self.kept_s)

    def kept(self, seconds: float) -> None:
        """Note that the disk says so now."""
        self.kept_s = max(self.kept_s, seconds)
        self._asking = False

    def _ask(self, seconds: float) -> None:
        if not self._asking:
            self._asking = True
            self.on_keep(seconds)

    def _step(self, seconds: float) -> float:
        steps = [self._least_s * step for step in STEPS]
        return next((step for step in steps if step >= seconds), steps[-1])
