"""Whether this leader may act as one: heartbeats, the echoes of a majority, a window that counts from sending.

Why not the library's notion. pysyncobj stays leader for 30 s without hearing anybody (repair R7: two leaders for 30 s),
and it takes the time of RECEIPT of an answer as proof of life: a leader that was paused reads old answers on waking and
believes in itself. Here every heartbeat carries the leader's monotonic time of sending; followers send it back at once,
never behind an fdatasync. What a majority echoed was sent at time s, so each of them received it at s or later and
votes for nobody else before s + 0.4 s (election.py). The leader trusts itself until s + 0.25 s: no other leader can
have been elected by then, whatever happened to messages and processes in between. Clocks need only run at about the
same rate; they are never compared.

A peer whose disk has forgotten is not recorded: it may have forgotten a vote for somebody else. A learner is recorded
and not counted until it has a vote; what it echoed as a learner counts then, for it owes the same silence.

The same echoes decide when to step down (`holds`): the library counts answers to append_entries, which wait for the
follower's disk, so a slow disk would depose a healthy leader.
"""

from __future__ import annotations

from collections.abc import Collection

NEVER = float("-inf")


class Trust:
    """Newest echoed stamp of each peer, in seconds of the leader's monotonic clock.

    Invariant: no stamp is later than the moment at which it was recorded, so `until` never runs ahead of the truth.
    """

    def __init__(self, peers: Collection[str], *, window_s: float, fallback_s: float) -> None:
        self._stamps = dict.fromkeys(peers, NEVER)
        self._counting = frozenset(peers)
        self._own_counts = True
        self._window_s = window_s
        self._fallback_s = fallback_s
        self._grace = NEVER

    def set_members(self, peers: Collection[str], voters: Collection[str], *, own: bool) -> None:
        """From now on `peers` are all others, `voters` those whose echoes count; `own`: this node counts itself."""
        self._stamps = {peer: self._stamps.get(peer, NEVER) for peer in peers}
        self._counting = frozenset(voters)
        self._own_counts = own

    def lead(self, now: float) -> None:
        """A new term begins: what was echoed before says nothing about it."""
        self._stamps = dict.fromkeys(self._stamps, NEVER)
        self._grace = now

    def resumed(self, now: float) -> None:
        """The process stood still: answers may be waiting unread, so do not step down before reading them."""
        self._grace = now

    def echoed(self, peer: str, stamp: float, now: float) -> None:
        """`peer` sent back the stamp of a heartbeat of this term. A stamp from the future is nobody's echo."""
        if self._stamps.get(peer, stamp) < stamp <= now:
            self._stamps[peer] = stamp

    def forget(self, peer: str) -> None:
        """The peer came back with another disk: what it echoed before is void."""
        if peer in self._stamps:
            self._stamps[peer] = NEVER

    def confirmed(self, now: float) -> float:
        """The latest time of sending that a majority of the voters (this node, if one, with now) has echoed; -inf if
        none."""
        stamps = sorted((self._stamps[peer] for peer in self._counting), reverse=True)
        needed = (len(stamps) + self._own_counts) // 2 + 1 - self._own_counts
        return stamps[needed - 1] if needed else now

    def until(self, now: float) -> float:
        """Monotonic time at which trust ends."""
        return self.confirmed(now) + self._window_s

    def holds(self, now: float) -> bool:
        """Whether to stay leader at all: a majority was heard within the fallback time."""
        return now - max(self.confirmed(now), self._grace) < self._fallback_s
