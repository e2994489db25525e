"""Compares our clock with the other nodes' clocks: how far ahead their median is, and if a majority contradicts this
leader.

Every echo of a heartbeat carries the clock of its sender, so only a leader knows the others' clocks. Its heartbeats
carry their median, so a follower knows how far its own clock is off. Two things follow:

- A leader's stamps stay within 500 ms past the median (runtime/clock.py), from the first stamp on.
- If a majority agrees with each other and contradicts the leader, the leader hands leadership to a node of that
  majority. A clock that is behind would make all deliveries late. A clock that is ahead would make them early, by up to
  500 ms.

A clock contradicts the median if it is farther off than the configured bound, which is at most those 500 ms.

An echo or heartbeat that waited on the way does not count (replication/election/median.py,
replication/raft/options.py). After a pause such a message says where clocks were before the pause.
"""

from __future__ import annotations

import math
import statistics

from node.runtime.clock import STEP_MS, NodeClock
from replication.election.median import Median
from replication.group import RaftGroup
from replication.raft.options import Peer, parted_ms


class Skew:
    """The differences between the nodes' clocks in one node's group, as this node knows them. Echoes from before
    `led_since_s` (monotonic seconds) do not count. `bound_ms` is how far a clock may be off the median."""

    def __init__(self, group: RaftGroup, clock: NodeClock, bound_ms: int = STEP_MS) -> None:
        self._group = group
        self._clock = clock
        self._bound_ms = bound_ms
        self.led_since_s = 0.0
        self._found: Median | None = None

    def median_ms(self) -> float:
        """Return how far the median of the nodes' clocks is ahead of ours, in ms. Only the leader knows it. Another
        node gets 0.

        A peer that was not heard in this term counts with the last known median, moved on by the time since. So a node
        whose wall clock jumped before its election knows that it is off, though another node is away. Two clocks alone
        would not show which one is wrong.

        The median may be unknown, as after all nodes were down at once. Then:

        - A peer that is down is left out. Of two clocks the lower counts: being late is bearable, being early is not.
        - A peer that is up and not heard yet counts as the lowest clock: two fast ones of five may be heard first.
        """
        return self._median()[0]

    def least_median_ms(self) -> float:
        """Return a lower bound of how far the true median is ahead of our clock, in ms. A leader's stamps are held back
        by it.

        The first echoes of a term may have been slow. So the bound allows for slow echoes, and for slack and age of the
        last known median. It is never below the lowest clock of a majority that is heard.
        """
        now, voters = self._clock.monotonic(), self.voters
        heard_ms = [peer.least_offset_ms(now) for peer in voters if self._heard(peer)]
        known = self.known or Median(0.0, now)
        return self._median_of(voters, heard_ms, known.slack_ms + parted_ms(now - known.at_s))

    def told_ms(self) -> tuple[int, int]:
        """Return the two figures in ms that a leader's heartbeats carry. One is how far its clock is ahead of the
        median. The other is how much farther it may be."""
        median_ms, slack_ms = self._median()
        return -round(median_ms), math.ceil(slack_ms)

    def _median(self) -> tuple[float, float]:
        """Return `median_ms`, and how much lower the true median may be, in ms. That slack comes from the time that
        echoes took, and from the slack of the last known median. The age of that median adds nothing: each later leader
        would add it again, for a clock that is away for days."""
        voters, known = self.voters, self.known
        heard = [peer for peer in voters if self._heard(peer)]
        median_ms = self._median_of(voters, [peer.clock_offset_ms for peer in heard])
        sure_ms = [peer.clock_offset_ms - peer.clock_error_ms for peer in heard]
        slack_ms = median_ms - self._median_of(voters, sure_ms, known.slack_ms if known else 0.0)
        if self._clock.leading and len(heard) == len(voters):
            self._found = Median(self._clock.own_ms() + median_ms, self._clock.monotonic(), slack_ms)
        return median_ms, slack_ms

    def _median_of(self, voters: list[Peer], heard_ms: list[float], known_less_ms: float = 0.0) -> float:
        """Return the median of all clocks, in ms ahead of ours. They are our own, those in `heard_ms`, and one for each
        other voter. That one counts as the last known median less `known_less_ms`. If no median is known, see
        `median_ms`."""
        if not self._clock.leading:
            return 0.0
        offsets_ms, known_ms = [0.0, *heard_ms], self._known_ms()
        if known_ms is not None:
            return statistics.median_low([*offsets_ms, *([known_ms - known_less_ms] * (len(voters) - len(heard_ms)))])
        awaited = sum(peer.connected and not self._heard(peer) for peer in voters)
        return statistics.median_low([*offsets_ms, *([min(offsets_ms)] * awaited)])

    @property
    def voters(self) -> list[Peer]:
        """The peers whose clocks count: those with a vote. A peer without a vote may be away for any time, or have a
        clock that is wrong for any time."""
        return [peer for peer in self._group.peers.values() if not peer.learner]

    @property
    def known(self) -> Median | None:
        """The newest median of the nodes' clocks, found by this node as a leader or heard from one. None if there is
        none."""
        return max((each for each in (self._found, self._group.median) if each), key=lambda at: at.at_s, default=None)

    def some_right_ms(self) -> float:
        """Return how far ahead of our clock a moment is that at least one right clock has not passed yet, in ms. It
        looks at the clocks that were heard, and assumes that a majority of all nodes' clocks are right. Only a leader
        that has heard a majority in its term may ask."""
        voters = self.voters
        heard_ms = [peer.clock_offset_ms for peer in voters if self._heard(peer)]
        offsets_ms = sorted([0.0, *heard_ms], reverse=True)
        wrong_at_most = len(voters) // 2
        return offsets_ms[max(0, len(offsets_ms) - wrong_at_most - 1)]

    def _known_ms(self) -> float | None:
        """Return how far the last known median is ahead of our clock now."""
        if self.known is None:
            return None
        return self.known.ms + (self._clock.monotonic() - self.known.at_s) * 1000 - self._clock.own_ms()

    def agrees(self, peer: Peer) -> bool:
        """True if the peer's clock is within the bound of the median."""
        return self._heard(peer) and abs(peer.clock_offset_ms - self.median_ms()) <= self._bound_ms

    def hears(self, peer: Peer) -> bool:
        """True if this node leads and has heard the peer's clock in this term."""
        return self._clock.leading and self._heard(peer)

    def ahead_ms(self) -> float | None:
        """Return how far this node's clock is ahead of the median, in ms. A leader knows it by the echoes, a follower
        by its leader's heartbeats. None without a leader, or if no other clock is known."""
        if self._clock.leading:
            return -self.median_ms() if any(map(self._heard, self.voters)) else None
        known_ms = self._known_ms() if self._group.leader_id is not None else None
        return None if known_ms is None else -known_ms

    def outvoted(self) -> bool:
        """True if this leader's clock is farther off the median than the bound, and the clocks of a majority of all
        nodes are within it. False if no majority is known: with two nodes, or with one of three down, unless the median
        is still known."""
        agreeing = sum(map(self.agrees, self.voters)) + self._absent()
        return abs(self.median_ms()) > self._bound_ms and self._majority(agreeing)

    def outvotes(self, peer: Peer) -> bool:
        """True if the other nodes would outvote that peer's clock if the peer led."""
        others = sum(self.agrees(each) for each in self.voters if each is not peer) + self._absent()
        return not self.agrees(peer) and self._majority(others + (abs(self.median_ms()) <= self._bound_ms))

    def _absent(self) -> int:
        """Count the nodes that are down and whose clock was near the median when they were last heard."""
        known_ms = self._known_ms()
        if known_ms is None or abs(known_ms - self.median_ms()) > self._bound_ms:
            return 0
        return sum(not self._heard(peer) and not peer.connected for peer in self.voters)

    def _majority(self, count: int) -> bool:
        return count > (len(self.voters) + 1) // 2

    def _heard(self, peer: Peer) -> bool:
        return peer.last_echo_s > self.led_since_s
