"""The silence that a node owes a leader: for this long after it heard the leader, it votes for no other node.

Trust rests on the silence. A leader that counted on its own timeouts would be wrong where a voter has shorter ones.
That happens while the times in `[raft]` are changed and nodes restart one after the other. So each echo says the
silence that its sender owes. Trust lasts as long as the silence of a majority allows (trust.py). Two rules make that
safe:

- **Longer at once, shorter only when it has run out.** The silence owed for an earlier heartbeat is owed until it ends,
  even if a later echo says a shorter one. `Election.heard_leader` never shortens it.
- **A restart forgets nothing.** `kept_s` is on disk, and never below a silence that still runs. After a start the node
  is silent for `kept_s`. So a longer silence is written to disk before the first echo says it.

The silence grows past the configured one while nodes are late (patience.py). It grows in STEPS. A shorter silence is
written to disk only LOWER_S later, so the disk is written seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STEPS: Final = (1.0, 1.5, 2.0, 3.0, 4.0)
"""Factors of the configured silence."""
LOWER_S: Final = 60.0
"""A shorter silence is written to disk only this long after the longer one has run out."""


def _nothing(_: float) -> None:
    return


def _yes() -> bool:
    return True


class Silence:
    """The silence that one node owes a leader, in seconds. Its echoes say `promise_s`. `kept_s` is the length on its
    disk. Invariant: promise_s <= kept_s.
    """

    def __init__(self, least_s: float, kept_s: float, now: float) -> None:
        """`least_s`: the configured silence. `kept_s`: the silence on disk, at least `least_s`."""
        assert kept_s >= least_s, (kept_s, least_s)
        self.promise_s = self._least_s = least_s
        self.kept_s = kept_s
        self.on_keep: Callable[[float], None] = _nothing
        """Makes the given seconds durable, in a thread, and then calls `kept`. If it is not set, no silence grows."""
        self.may_grow: Callable[[], bool] = _yes
        """Says if every build that may start on this disk knows a longer silence. An older build would forget it."""
        self._longer_until_s = now + kept_s
        self._asking = False

    def owe(self, now: float) -> float:
        """Note that a leader was heard now. Return the time until which this node votes for no other node."""
        if self.promise_s > self._least_s:
            self._longer_until_s = now + self.promise_s
        return now + self.promise_s

    def want(self, seconds: float, now: float) -> None:
        """Ask for a silence of `seconds`, because the nodes are that late. A length up to `kept_s` holds at once. A
        greater one holds after the disk has it.
        """
        wanted_s = self._step(seconds) if self.may_grow() else self._least_s
        if wanted_s > self.kept_s:
            self._ask(wanted_s)
        elif wanted_s == self._least_s < self.kept_s and now >= self._longer_until_s + LOWER_S and not self._asking:
            self.kept_s = self._least_s  # before the disk has it: from here on echoes say no more than this
            self._ask(self._least_s)
        self.promise_s = min(wanted_s, self.kept_s)

    def kept(self, seconds: float) -> None:
        """Note that the disk now has a silence of `seconds`."""
        self.kept_s = max(self.kept_s, seconds)
        self._asking = False

    def _ask(self, seconds: float) -> None:
        if not self._asking:
            self._asking = True
            self.on_keep(seconds)

    def _step(self, seconds: float) -> float:
        steps = [self._least_s * step for step in STEPS]
        return next((step for step in steps if step >= seconds), steps[-1])
