"""The timings and bounds of one Raft group, and the reports of its nodes: plain values, checked together when made."""

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
    """The ids of the other nodes. All count as voters until `RaftGroup.set_members` is called."""
    founds: bool = True
    """True if a node with an empty directory may found a cluster with peers that are empty too. False if it joins one.
    """
    number: int = 0
    """The number of the group in ids, entries and files."""
    heartbeat_s: float = 0.05
    trust_s: float = 0.25
    """How long a leader trusts itself, counted from sending a heartbeat. A longer time bridges longer pauses. It must
    stay below election_min_s.
    """
    election_min_s: float = 0.4
    election_max_s: float = 0.8
    """A follower gives a silent leader up after a random time between election_min_s and election_max_s.

    Shorter times mean a faster failover, and more elections without need.
    """
    apart_ms: int = 500
    """A node whose clock is farther than this from its leader's campaigns only after the others.

    Delay counts as difference, so lower it only where the network is fast.
    """
    fallback_s: float = 0.35
    """A leader that no majority echoes steps down after this time."""
    stall_s: float = 0.15
    """A longer pause between ticks means that the process stood still."""
    resend_s: float = 5.0
    """An append_entries that is not answered is sent again after this time (raft/progress.py)."""
    idle_s: float = 0.5
    """An empty append_entries goes out this often."""
    nudge_s: float = 1.0
    """For a node that waits to vote again, the leader appends a no-op this often."""
    outcome_s: float = 5.0
    """A proposal that has no outcome after this time gets `unknown`."""
    transfer_s: float = 1.0
    """A transfer is called off unless its target has everything on disk and applied within this.

    Nothing is proposed meanwhile, so a transfer that fails may hold up the service for as long.
    """
    apply_slice_s: float = 0.02
    """A step applies entries for this long at most, so that heartbeats are not late during a long replay."""
    max_entry_bytes: int = 8 * MIB
    max_batch_bytes: int = 4 * MIB
    """Bytes of entries in one append_entries. More: fewer round trips, but heartbeats on the same connection wait
    longer.
    """
    max_batch_entries: int = 4096
    max_pending_bytes: int = 64 * MIB
    is_change: IsChange = _no_change
    """Says if an entry of the log changes the members."""

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
    """A node's report of itself, which every echo has.

    - `wall_ms`: its node clock. `free_bytes`: the free space of its disk. `low`: this space is less than its reserve.
    - For a planned stop: `retiring` says that it shall not lead, `leaving` that it waits for permission to end.
    - `busy`: it has pushes on the wire, or outcomes of pushes that are not in the log yet.
    - `ahead_ms()`: how far a leader's clock is ahead of the median of all, and how much farther it may be, in ms. It
      looks at all peers, so it is called only for a heartbeat.
    """

    wall_ms: int
    free_bytes: int
    low: bool = False
    retiring: bool = False
    leaving: bool = False
    busy: bool = False
    ahead_ms: Callable[[], tuple[int, int]] = lambda: (0, 0)


DRIFT_MS_PER_S: Final = 2.0
"""The fastest rate at which two node clocks come apart unless one is set. Each has a rate error of 500 ppm and is
slewed by 500 ppm."""
PARTING_S: Final = 120.0
"""The longest time for which two right clocks come apart, because NTP sets them right (assumption A7).

With a longer time a lost clock would hold a right leader's clock back by seconds. The leader's leases would end when
that clock is heard again.
"""
WHOLE_MS: Final = 1.0
"""The error of rounding to whole milliseconds."""


def parted_ms(age_s: float) -> float:
    """The most by which two right clocks can have come apart, in ms, `age_s` seconds after one node heard the other's
    clock.
    """
    return min(age_s, PARTING_S) * DRIFT_MS_PER_S


@dataclass(slots=True)
class Peer:
    """A peer as this node knows it. On the leader the echoes fill all fields but `connected` and `store_id`."""

    node_id: str
    connected: bool = False
    applied_index: int = 0
    match_index: int = 0
    clock_offset_ms: float = 0.0
    """Its node clock minus ours, by the most exact echo."""
    clock_error_ms: float = float("inf")
    """How far `clock_offset_ms` may be wrong: half the round trip of that echo, which came at `last_clock_s`."""
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
    """True if it has a vote and `remembers`."""
    remembers: bool = False
    """True if its disk has all that it ever promised (election/may_vote.py)."""
    learner: bool = False
    """True for a member that has no vote yet. It counts for no majority."""
    stranded: bool = False
    """True if the leader's journal no longer has the entry that it needs next."""
    store_id: bytes = b""

    def least_offset_ms(self, now: float) -> float:
        """The least by which its node clock can be ahead of this node's, in ms, at monotonic second `now`."""
        return self.clock_offset_ms - self.clock_error_ms - parted_ms(now - self.last_clock_s)

    def _error_ms(self, now: float) -> float:
        """How far `clock_offset_ms` may be wrong at `now`, in ms."""
        return self.clock_error_ms + (now - self.last_clock_s) * DRIFT_MS_PER_S

    def echoed(self, message: Message, now: float, stamp: float, wall_ms: int) -> None:
        """Take over the fields of an echo. `stamp` is the time at which its heartbeat was sent, `wall_ms` this node's
        clock now.
        """
        self.applied_index = message["applied_index"]
        self.free_bytes, self.low = message["free_bytes"], message["low"]
        self.retiring, self.leaving, self.busy = message["retiring"], message["leaving"], message["busy"]
        half_ms = (now - stamp) * 500
        self._hear_clock(message["wall_ms"] - (wall_ms - half_ms), half_ms + WHOLE_MS, now)
        self.last_echo_s = now

    def _hear_clock(self, offset_ms: float, error_ms: float, now: float) -> None:
        """Take a measurement of how far its clock is ahead of this node's. It may be wrong by `error_ms`.

        An echo that waited, in the socket of a stopped process, is a rough measurement. So a more exact one from before
        is kept as long as both can be true. If they contradict each other, a clock was set since, and the new one
        replaces it.
        """
        known_error_ms = self._error_ms(now)
        contradicts = abs(offset_ms - self.clock_offset_ms) > error_ms + known_error_ms
        if error_ms <= known_error_ms or contradicts:
            self.clock_offset_ms, self.clock_error_ms, self.last_clock_s = offset_ms, error_ms, now
