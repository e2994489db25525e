"""Decides if this leader may act as one. It knows the heartbeats that a majority echoed, and counts from the time of
sending.

Why not the library's rule: pysyncobj stays leader for 30 s without hearing any node (repair R7: two leaders for 30 s).
It also takes the time of RECEIPT of an answer as proof of life. So a leader that was paused reads old answers on waking
and believes that it leads.

Here every heartbeat has a stamp, the leader's monotonic time of sending. Followers send it back at once, without
waiting for an fdatasync. Say a majority echoed a heartbeat sent at time s. The followers of that majority received it
at s or later. None of them votes for another node before s plus the silence that its echo says (silence.py), 0.4 s by
default. The leader trusts itself for a share of that, 0.25 s of 0.4 s. No other leader can be elected by then, even if
messages or processes stand still. Clocks need only run at about the same rate; they are never compared.

The share is the configured trust to the configured silence of this node. A voter that owes less silence than this node
gives the leader trust for a shorter time. A voter that owes more gives it for longer, up to `STRETCH_MAX` times the
configured trust. So each voter gives trust until a moment of its own. The leader is trusted until the latest moment up
to which a majority gives trust. A later echo that gives less takes nothing back, because the earlier silence is still
owed.

The echoes of a peer whose disk has forgotten promises are not recorded, because it may have forgotten a vote for
another node. A learner's echoes are recorded, and count only once it has a vote. Echoes that it sent as a learner count
then too, because it owes the same silence.

The same echoes decide when to step down (`holds`). The library counts answers to append_entries, which wait for the
follower's disk, so a slow disk would depose a healthy leader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from replication.election.silence import STEPS

NEVER = float("-inf")
STRETCH_MAX: Final = STEPS[-1]


class Trust:
    """The newest stamp that each peer echoed, and the time until which the peer gives trust. All times are seconds of
    the leader's monotonic clock.

    A voter that owes a silence of `silence_s` gives trust for `window_s`, and keeps this leader from stepping down for
    `fallback_s`. For a voter that owes another silence both are scaled (see the module).

    Invariants: no stamp is later than the moment at which it was recorded. Trust from a stamp ends before the silence
    that was owed for it.
    """

    def __init__(self, peers: Collection[str], *, window_s: float, fallback_s: float, silence_s: float) -> None:
        assert window_s < fallback_s < silence_s, (window_s, fallback_s, silence_s)
        self._stamps = dict.fromkeys(peers, NEVER)
        self._owed: dict[str, float] = {}  # the silence that each peer's newest echo says
        self._trusted = dict.fromkeys(peers, NEVER)
        self._held = dict.fromkeys(peers, NEVER)
        self._silence_s = silence_s
        self._counting = frozenset(peers)
        self._own_counts = True
        self._window_s = window_s
        self._fallback_s = fallback_s
        self._grace = NEVER
        self._until = self._reached(self._trusted)  # stored, because every message asks for it

    def set_members(self, peers: Collection[str], voters: Collection[str], *, own: bool) -> None:
        """Set the members. `peers` are all members but this node. Only the echoes of `voters` count. `own` is True if
        this node has a vote and so counts itself.
        """
        self._stamps = {peer: self._stamps.get(peer, NEVER) for peer in peers}
        self._trusted = {peer: self._trusted.get(peer, NEVER) for peer in peers}
        self._held = {peer: self._held.get(peer, NEVER) for peer in peers}
        self._counting = frozenset(voters)
        self._own_counts = own
        self._look()

    def lead(self, now: float) -> None:
        """Begin a new term at `now`. Echoes of earlier terms are forgotten."""
        for peer in self._stamps:
            self.forget(peer)
        self._grace = now

    def resumed(self, now: float) -> None:
        """Note that the process stood still. Echoes may wait unread, so `holds` stays True for `fallback_s` from
        now.
        """
        self._grace = now

    def echoed(self, peer: str, stamp: float, owed_s: float, now: float) -> None:
        """Record that `peer` echoed the stamp of a heartbeat of this term, and owes `owed_s` of silence for it.

        A stamp later than `now` belongs to no heartbeat, so it is ignored.
        """
        if self._stamps.get(peer, stamp) < stamp <= now:
            self._stamps[peer], self._owed[peer] = stamp, owed_s
            stretch = min(owed_s / self._silence_s, STRETCH_MAX)
            self._trusted[peer] = max(self._trusted[peer], stamp + stretch * self._window_s)
            self._held[peer] = max(self._held[peer], stamp + stretch * self._fallback_s)
            self._look()

    def forget(self, peer: str) -> None:
        """Forget all echoes of the peer, because it came back with another disk."""
        if peer in self._stamps:
            self._stamps[peer] = self._trusted[peer] = self._held[peer] = NEVER
            self._owed.pop(peer, None)
            self._look()

    def confirmed(self, now: float) -> float:
        """The time at which the newest heartbeat was sent that a majority of the voters has echoed; -inf if there is
        none.

        If this node is a voter, it counts as having echoed at `now`.
        """
        return _or(self._reached(self._stamps), now)

    @property
    def alone(self) -> bool:
        """True if this node alone is a majority, so that it needs no echoes."""
        return self._until is None

    def until(self, now: float) -> float:
        """The monotonic second at which trust ends."""
        return _or(self._until, now + self._window_s)

    def holds(self, now: float) -> bool:
        """True if this node should go on leading. False if no majority was heard for the fallback time."""
        return now < max(_or(self._reached(self._held), now + self._fallback_s), self._grace + self._fallback_s)

    @property
    def pace(self) -> float:
        """The smallest silence that a voter owes as a share of this node's own silence, at most 1. The leader sends
        heartbeats more often by this factor.
        """
        owed = (self._owed.get(peer, self._silence_s) for peer in self._counting)
        return min(1.0, min(owed, default=self._silence_s) / self._silence_s)

    def _look(self) -> None:
        self._until = self._reached(self._trusted)

    def _reached(self, moments: Mapping[str, float]) -> float | None:
        """The latest moment that is reached by the `moments` of a majority of the voters, this node included. None if
        this node alone is a majority.
        """
        ordered = sorted((moments[peer] for peer in self._counting), reverse=True)
        needed = (len(ordered) + self._own_counts) // 2 + 1 - self._own_counts
        return ordered[needed - 1] if needed else None


def _or(reached: float | None, own: float) -> float:
    return own if reached is None else reached
