"""A node's view of its Raft group: the leader, the end of the log, the other nodes. Nothing here changes the group.

This is one half of RaftGroup. The other half, group.py, sets these attributes and changes the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from replication.election.median import Median
from replication.election.silence import Silence
from replication.journal.journal import Journal
from replication.raft.agreement import Agreement
from replication.raft.follower import NEVER, Follower
from replication.raft.leader import Leader
from replication.raft.members import Roster
from replication.raft.options import GroupOptions, Peer
from replication.raft.proposal import Pending
from replication.raft.pysyncobj_core import CANDIDATE, LEADER, Core


class GroupState:
    """The read-only properties of a RaftGroup. group.py sets the attributes below."""

    options: GroupOptions
    journal: Journal
    agreement: Agreement
    roster: Roster
    silence: Silence
    established: bool
    _closed: bool
    _monotonic: Callable[[], float]
    _core: Core
    _following: Follower
    _leading: Leader
    _pending: Pending
    _change_index: int

    @property
    def number(self) -> int:
        """The number of the group in ids, entries and files."""
        return self.options.number

    @property
    def role(self) -> str:
        """`leader`, `candidate`, `follower`, or `learner` while the node may not vote."""
        if self._core.state == LEADER:
            return "leader"
        if not self.journal.voter or not self.roster.votes:
            return "learner"
        return "candidate" if self._core.state == CANDIDATE else "follower"

    @property
    def is_leader(self) -> bool:
        """True if this node leads, as far as it knows. A newer leader may exist; see `trusted`."""
        return self._core.state == LEADER and not self._closed

    @property
    def term(self) -> int:
        """Current term."""
        return self._core.term

    @property
    def leader_id(self) -> str | None:
        """The leader of the current term. None if there is none, or if it was not heard for an election timeout."""
        leader = self._core.leader_id
        if leader is None or leader == self.options.node_id:
            return leader
        options = self.options
        spread_s = options.election_max_s - options.election_min_s
        silent_s = self._monotonic() - self._following.heard_s
        return leader if silent_s < self.silence.promise_s + spread_s else None

    @property
    def commit_index(self) -> int:
        """The index up to which this node knows that all entries are on a majority of disks."""
        return self._core.commit_index

    @property
    def applied_index(self) -> int:
        """The index up to which all entries are applied here. It is never beyond `commit_index`, or beyond the entries
        on this node's disk.
        """
        return self._core.applied_index

    @property
    def last_index(self) -> int:
        """The index of the log's last entry, which may not be durable yet."""
        return self._core.last_index

    @property
    def low_water(self) -> int:
        """The index up to which every peer is known to have the log. No peer needs the journal before it."""
        return self._leading.low_water if self.is_leader else self._following.low_water

    @property
    def known_commit(self) -> int:
        """The newest commit index that this node heard of. This node may not have all entries up to there."""
        return max(self._core.commit_index, self._following.leader_commit)

    @property
    def agreed_index(self) -> int:
        """The newest index after which a majority of the voters is known to have the same state hash as this node. It
        is 0 until one is known."""
        return self.agreement.agreed_index

    @property
    def median(self) -> Median | None:
        """The newest median of the nodes' clocks that a leader's heartbeat said. None before the first one."""
        return self._following.median.told

    @property
    def pending_bytes(self) -> int:
        """The bytes of all proposals that have no outcome yet."""
        return self._pending.bytes

    @property
    def trusted_until(self) -> float:
        """The monotonic second at which this leader's trust ends. -inf if it has none, inf if this node alone is a
        majority.
        """
        if not (self.is_leader and self.established):
            return NEVER
        trust = self._leading.trust
        return math.inf if trust.alone else trust.until(self._monotonic())

    def trusted(self, now: float) -> bool:
        """True if this node may act as the leader at monotonic second `now`. Call it again after every await."""
        return self.is_leader and self.established and now < self._leading.trust.until(now)

    @property
    def untrusted_s(self) -> float:
        """Seconds since the start for which trust had ended while this node led."""
        return self._leading.untrusted_s

    @property
    def released(self) -> bool:
        """True if this node is leaving (`NodeReport.leaving`) and the leader said last that it may end.

        The leader needs it for no majority, or the whole cluster stops.
        """
        return self._following.released

    @property
    def outnumbered(self) -> bool:
        """True on a leader if the voters that do not leave are no majority. Leaving nodes then wait until `let_go`."""
        return self.is_leader and self._leading.outnumbered()

    @property
    def peers(self) -> dict[str, Peer]:
        """The state of the peers, by node id. On the leader all fields are filled, elsewhere only `connected`. The
        objects are not copies.
        """
        return self._leading.survey()

    def low_peers(self) -> int:
        """The number of peers whose free space is below their reserve."""
        return sum(peer.low for peer in self.peers.values())

    @property
    def changing(self) -> bool:
        """True if this leader has proposed a change of the members that it has not applied yet."""
        return self.is_leader and self._change_index > self._core.applied_index
