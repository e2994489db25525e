"""The timings and bounds of one Raft group, and its reports of its peers: plain values, checked together once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from replication.wire.frame import ENTRIES_MAX, FRAME_BYTES_MAX, META_BYTES_MAX, Message

MIB = 1024 * 1024
CATCHING_UP: Final = 100
"""A node this many entries behind counts as catching up."""
IsChange = Callable[[bytes], bool]


def _no_change(_: bytes) -> bool:
    return False


@dataclass(frozen=True)
class GroupOptions:
    """Times in seconds, sizes in bytes. Safety and liveness rest on the relations checked below."""

    node_id: str
    peers: tuple[str, ...]
    """Node ids of the others, all with a vote, until `RaftGroup.set_members` says more."""
    founds: bool = True
    """True if an empty node with empty peers may begin a cluster. False for a node that joins."""
    number: int = 0
    """The number of the group in ids, entries and files."""
    heartbeat_s: float = 0.05
    trust_s: float = 0.25
    """How long a leader trusts itself, counted from sending. More bridges hiccups. It must stay below
    election_min_s.
    """
    election_min_s: float = 0.4
    election_max_s: float = 0.8
    """A silent leader is given up after a random time between the two. Less: faster failover, more false alarms."""
    apart_ms: int = 500
    """A node whose clock is farther than this from its leader's campaigns only after the others.

    Delay counts as difference, so lower it only where the network is fast.
    """
    fallback_s: float = 0.35
    """A leader that no majority echoes steps down after this."""
    stall_s: float = 0.15
    """A pause between ticks of at least this means that the process stood still."""
    resend_s: float = 5.0
    idle_s: float = 0.5
    nudge_s: float = 1.0
    outcome_s: float = 5.0
    """A proposal without outcome is `unknown` after this."""
    transfer_s: float = 1.0
    """A transfer is called off unless its target has everything on disk and applied within this.

    Nothing is proposed meanwhile, so a transfer that fails may hold up the service for as long.
    """
    apply_slice_s: float = 0.02
    """Applying pauses after this, so that heartbeats are not late during a long replay."""
    max_entry_bytes: int = 8 * MIB
    max_batch_bytes: int = 4 * MIB
    """Bytes of entries in one append_entries. More: fewer round trips, but heartbeats on the same connection wait
    longer.
    """
    max_batch_entries: int = 4096
    max_pending_bytes: int = 64 * MIB
    is_change: IsChange = _no_change
    """True if a command of the log changes the members."""

    def __post_init__(self) -> None:
        if self.node_id in self.peers or len(set(self.peers)) != len(self.peers):
            raise ValueError(f"peers {self.peers} of {self.node_id}: each other node once")
        if not 2 * self.heartbeat_s < self.trust_s < self.fallback_s < self.election_min_s < self.election_max_s:
            raise ValueError("2 * heartbeat_s < trust_s < fallback_s < election_min_s < election_max_s does not hold")
        largest = max(self.max_entry_bytes, self.max_batch_bytes)
        if largest + META_BYTES_MAX > FRAME_BYTES_MAX or self.max_batch_entries > ENTRIES_MAX:
            raise ValueError("an entry or a batch must fit into one frame")


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's report of itself in every echo.

    - `wall_ms`: its node clock. `free_bytes`: free on its disk. `low`: that is less than its reserve.
    - For a planned stop: `retiring` says that it shall not lead, `leaving` that it waits to end.
    - `busy`: it has pushes on the wire, or outcomes of pushes that are not in the log.
    - `ahead_ms`: how far a leader's clock is ahead of the median of all, and how much farther at the most. The leader
      looks at all peers for it, so only a heartbeat asks.
    """

    wall_ms: int
    free_bytes: int
    low: bool = False
    retiring: bool = False
    leaving: bool = False
    busy: bool = False
    ahead_ms: Callable[[], tuple[int, int]] = lambda: (0, 0)


DRIFT_MS_PER_S: Final = 2.0
"""Two node clocks come apart no faster, unless one is set: 500 ppm in the rate of each, 500 ppm that each is slewed."""
PARTING_S: Final = 120.0
"""Two right clocks come apart for no longer, because NTP sets them right (A7).

A longer time would hold a right leader back by seconds. Its leases would end when a lost clock is heard again.
"""
WHOLE_MS: Final = 1.0
"""The error of rounding to whole milliseconds."""


def parted_ms(age_s: float) -> float:
    """How far two right clocks have come apart at most, `age_s` after one heard the other."""
    return min(age_s, PARTING_S) * DRIFT_MS_PER_S


@dataclass(slots=True)
class Peer:
    """A peer as this node knows it. On the leader echoes fill all fields but `connected` and `store_id`."""

    node_id: str
    connected: bool = False
    applied_index: int = 0
    match_index: int = 0
    clock_offset_ms: float = 0.0
    """Its node clock minus ours, by the most exact echo."""
    clock_error_ms: float = float("inf")
    """How far that may be wrong: half the round trip of that echo, when it came (`last_clock_s`)."""
    last_clock_s: float = 0.0
    free_bytes: int = 0
    low: bool = False
    """True if the free space is less than its reserve."""
    retiring: bool = False
    leaving: bool = False
    busy: bool = False
    last_echo_s: float = float("-inf")
    """Monotonic second at which its last echo came."""
    voter: bool = False
    """True if it has a vote, and its disk has all it ever promised (`remembers`)."""
    remembers: bool = False
    learner: bool = False
    """True for a member without a vote yet. It does not count."""
    stranded: bool = False
    """True if the leader's journal no longer has the entry that it needs next."""
    store_id: bytes = b""

    def least_offset_ms(self, now: float) -> float:
        """How far its node clock is ahead of ours, at least, at this monotonic second."""
        return self.clock_offset_ms - self.clock_error_ms - parted_ms(now - self.last_clock_s)

    def _error_ms(self, now: float) -> float:
        """How far `clock_offset_ms` may be wrong by now."""
        return self.clock_error_ms + (now - self.last_clock_s) * DRIFT_MS_PER_S

    def echoed(self, message: Message, now: float, stamp: float, wall_ms: int) -> None:
        """Take over an echo. `stamp` is when its heartbeat was sent, `wall_ms` our node clock now."""
        self.applied_index = message["applied_index"]
        self.free_bytes, self.low = message["free_bytes"], message["low"]
        self.retiring, self.leaving, self.busy = message["retiring"], message["leaving"], message["busy"]
        half_ms = (now - stamp) * 500
        self._hear_clock(message["wall_ms"] - (wall_ms - half_ms), half_ms + WHOLE_MS, now)
        self.last_echo_s = now

    def _hear_clock(self, offset_ms: float, error_ms: float, now: float) -> None:
        """Take a measurement of how far its clock is ahead, give or take the error.

        An echo that waited, in the socket of a stopped process, says little. The more exact measurement stays, as long
        as both can be true. If they contradict each other, a clock was set since.
        """
        known_error_ms = self._error_ms(now)
        contradicts = abs(offset_ms - self.clock_offset_ms) > error_ms + known_error_ms
        if error_ms <= known_error_ms or contradicts:
            self.clock_offset_ms, self.clock_error_ms, self.last_clock_s = offset_ms, error_ms, now
