"""Reports what an operator must know at once: this node's clock is off, or nodes differ and no majority agrees.

The leader knows every clock from the echoes (node/cluster/clock_skew.py). A follower knows its own from the heartbeats,
which carry the median as the leader sees it. A clock is off if it differs from the median by more than `[clock]
skew_max_ms`, either way. A node whose clock is off is not ready (`/readyz`) and stands for election after the others
(replication/election/may_vote.py). A leader that a majority contradicts hands over (node/cluster/transfer.py). Nothing
here changes what is done with messages.

    clock that is off                      noticed by                    effect
    one follower's                         itself, the leader's metrics  not ready, stands after the others; nothing is
                                                                         late or early
    the leader's, and a majority agrees    itself, at once               not ready, stamps at most 500 ms past that
                                                                         majority, yields
    one of two that are up, of three       the follower, the metrics     no node can say which is wrong: the leader
                                                                         leads on
    a majority's, together                 no node                       the median is wrong: time is what most clocks
                                                                         say
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from node.cluster.clock_skew import Skew
from node.runtime.clock import NodeClock
from replication.group import RaftGroup

log = structlog.get_logger()

#: Seconds after which trouble that goes on is logged again.
SAY_EVERY_S = 30.0


class ClockGuard(Collector):
    """Logs and counts trouble: clocks that are off, and nodes whose states differ. Housekeeping calls `watch` every 0.5
    s. It also gives /metrics the skew of each peer's clock."""

    def __init__(self, skew: Skew, group: RaftGroup, clock: NodeClock, skew_max_ms: int) -> None:
        self._skew, self._group, self._clock, self._bound_ms = skew, group, clock, skew_max_ms
        self._said_s: dict[str, float] = {}

    def watch(self) -> None:
        """Log all trouble that there is now. Trouble that goes on is logged again after SAY_EVERY_S."""
        clock = self.clock_check()
        self._say("clock", "" if clock == "ok" else clock)
        self._say("split", self.split)
        for peer, ahead_ms in self._skews():
            off = abs(ahead_ms) > self._bound_ms
            self._say(f"clock of {peer}", f"the clock of {peer} is {_side(ahead_ms)} this leader's" if off else "")

    def clock_check(self) -> str:
        """Return `ok`, or by how much this node's clock is off, for /readyz. It is ok while no other clock is known."""
        ahead_ms = self._skew.ahead_ms()
        if ahead_ms is None or abs(ahead_ms) <= self._bound_ms:
            return "ok"
        return (
            f"this node's clock is {_side(ahead_ms)} the median of the nodes' clocks; "
            f"at most {self._bound_ms} ms are allowed ([clock] skew_max_ms)"
        )

    @property
    def split(self) -> str:
        """The nodes that differ while no majority has one state, in words. "" if nodes agree, or if this node does not
        lead."""
        found = self._group.agreement.split
        return str(found) if found is not None else ""

    def values(self) -> dict[str, float]:
        """Return the rows of node.cluster.metrics.TABLE about clocks and agreement, by name. How far the clock is ahead
        is NaN while no other clock is known."""
        ahead_ms = self._skew.ahead_ms()
        return {
            "hourwheel_clock_ahead_seconds": float("nan") if ahead_ms is None else ahead_ms / 1000,
            "hourwheel_agreed_index": self._group.agreed_index,
            "hourwheel_split": float(bool(self.split)),
        }

    def describe(self) -> list[Metric]:
        """Return nothing. The registry asks for this at registration, before there are peers."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the skew of each peer, for the registry."""
        family = GaugeMetricFamily(
            "hourwheel_clock_skew_seconds", "How far a peer's clock is ahead of this leader's", labels=["node"]
        )
        for peer, ahead_ms in self._skews():
            family.add_metric([peer], ahead_ms / 1000)
        yield family

    def _skews(self) -> list[tuple[str, float]]:
        """Return, for each peer heard in this term, how far its clock is ahead of ours, in ms."""
        peers = sorted(self._group.peers.items())
        return [(node_id, peer.clock_offset_ms) for node_id, peer in peers if self._skew.hears(peer)]

    def _say(self, subject: str, trouble: str) -> None:
        now_s = self._clock.monotonic()
        if not trouble:
            self._said_s.pop(subject, None)
        elif now_s - self._said_s.get(subject, float("-inf")) >= SAY_EVERY_S:
            self._said_s[subject] = now_s
            log.error("guard", subject=subject, trouble=trouble)


def _side(ahead_ms: float) -> str:
    return f"{abs(ahead_ms):.0f} ms {'ahead of' if ahead_ms > 0 else 'behind'}"
