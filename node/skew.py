"""What the nodes' clocks say about ours: how far ahead the median is, and whether this leader is outvoted.

Every echo of a heartbeat carries the clock of its sender, so only a leader knows the others'; its heartbeats carry the
median of them, so a follower knows how far its own is off. Two things follow. A leader's stamps stay within 500 ms
past the median (clock.py): that holds from the first stamp on. And a leader that a majority of the nodes contradict,
agreeing with each other, hands leadership to one of them: a clock that is behind would make everything late, and one
that is ahead everything early, if only by the 500 ms.

To contradict is to be farther off than the configured bound, which is at most those 500 ms.
"""

from __future__ import annotations

import statistics

from node.clock import STEP_MS, NodeClock
from replication.group import RaftGroup
from replication.options import Peer


class Skew:
    """Asks the group for its peers' clocks. `led_since_s`: echoes from before (monotonic seconds) say nothing."""

    def __init__(self, group: RaftGroup, clock: NodeClock, bound_ms: int = STEP_MS) -> None:
        self._group = group
        self._clock = clock
        self._bound_ms = bound_ms
        self.led_since_s = 0.0

    def median_ms(self) -> float:
        """How far the median of the nodes' clocks is ahead of ours; known to the leader alone, 0 elsewhere.

        A node that is down counts as one that agrees: else, with one of three down, a single slow clock would make
        everything late. One that is up and about to be heard is left out, and of two clocks the lower one counts: for
        that moment nothing may be early.
        """
        offsets_ms = [0.0]
        for peer in self._group.peers.values():
            if self._heard(peer):
                offsets_ms.append(peer.clock_offset_ms)
            elif not peer.connected:
                offsets_ms.append(0.0)
        return statistics.median_low(offsets_ms) if self._clock.leading else 0.0

    def agrees(self, peer: Peer) -> bool:
        """Whether the peer's clock is within the bound of the median."""
        return self._heard(peer) and abs(peer.clock_offset_ms - self.median_ms()) <= self._bound_ms

    def hears(self, peer: Peer) -> bool:
        """Whether this node leads and knows the peer's clock."""
        return self._clock.leading and self._heard(peer)

    def ahead_ms(self) -> float | None:
        """How far this node's clock is ahead of the median: by the echoes as leader, by its leader's word else. None
        where there is no leader, or nobody to compare with."""
        if self._clock.leading:
            return -self.median_ms() if any(map(self._heard, self._group.peers.values())) else None
        return self._group.ahead_ms

    def outvoted(self) -> bool:
        """Whether this leader is farther off the median than the bound, and a majority of all nodes is not: of two
        nodes, or with one of three down, nobody can say whose clock is wrong."""
        return abs(self.median_ms()) > self._bound_ms and self._majority(
            sum(map(self.agrees, self._group.peers.values()))
        )

    def outvotes(self, peer: Peer) -> bool:
        """Whether that peer would be outvoted as leader."""
        others = sum(self.agrees(each) for each in self._group.peers.values() if each is not peer)
        return not self.agrees(peer) and self._majority(others + (abs(self.median_ms()) <= self._bound_ms))

    def _majority(self, count: int) -> bool:
        return count > (len(self._group.peers) + 1) // 2

    def _heard(self, peer: Peer) -> bool:
        return peer.last_echo_s > self.led_since_s
