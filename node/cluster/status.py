"""The documents of GET /v1/cluster and /readyz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api.port.port import Readiness
from node.cluster.clock_guard import ClockGuard
from node.cluster.drain import Drain
from node.cluster.levels import Levels
from node.cluster.members import Members
from node.handover.lateness import Lateness
from node.handover.term import Leadership
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from replication.apply.machine import Machine
from replication.group import RaftGroup
from replication.raft.options import CATCHING_UP, Peer
from replication.wire.transport import Transport
from storage.tables.members import LEARNER


class Status:
    """Makes the documents of GET /v1/cluster and /readyz from the parts of a group, and changes nothing."""

    def __init__(
        self,
        members: Members,
        group: RaftGroup,
        machine: Machine,
        transport: Transport,
        levels: Levels,
        guard: ClockGuard,
        lateness: Lateness,
        reserve: Reserve,
        drain: Drain,
        leadership: Leadership,
        life: Lifecycle,
        *,
        snapshot: Callable[[str], dict[str, Any] | None],
        caught_up: Callable[[], bool],
    ) -> None:
        """`snapshot` returns the snapshot that a member is taking over, None if there is none. `caught_up` returns true
        once this node has caught up since its start."""
        self._members, self._group, self._machine, self._store = members, group, machine, machine.store
        self._transport, self._levels, self._guard, self._lateness = transport, levels, guard, lateness
        self._reserve, self._drain, self._leadership, self._life = reserve, drain, leadership, life
        self._snapshot, self._caught_up = snapshot, caught_up

    def cluster(self) -> dict[str, Any]:
        """Return the document of GET /v1/cluster. Its top level has the figures of group 0."""
        group, machine = self._group, self._machine
        dispatch = {
            "tick": machine.tick,
            "local_index": machine.local_index,
            "applied_index": machine.dispatched.applied_index,
        }
        cluster_id = self._store.cluster_id
        return {
            "cluster_id": cluster_id.hex() if cluster_id else None,
            "leader": group.leader_id,
            "term": group.term,
            "commit_index": group.commit_index,
            "level": self._levels.level,
            "nodes": [self._member(node_id) for node_id in self._members.ids()],
            "dispatch": dispatch,
            "agreement": {"index": group.agreed_index, "split": self._guard.split or None},
            "lateness_ms": self._lateness.quantiles(),
            "groups": [
                {
                    "id": 0,
                    "leader": group.leader_id,
                    "term": group.term,
                    "commit_index": group.commit_index,
                    "dispatch": dispatch,
                }
            ],
        }

    def _member(self, node_id: str) -> dict[str, Any]:
        """Return one member as this node sees it. A leader has a peer's figures from the echoes of its heartbeats. A
        follower does not, so it shows null for them."""
        group = self._group
        listed, learns = self._members.contact(node_id), self._members.role(node_id) == LEARNER
        role = "leader" if group.leader_id == node_id else "learner" if learns else "follower"
        member: dict[str, Any] = {
            "id": node_id,
            "http": listed.http if listed is not None else None,
            "raft": listed.raft if listed is not None else None,
            "role": role,
        }
        applied: int | None = self._machine.applied_index
        offset_ms: float | None = 0.0
        up, draining = True, self._drain.retiring
        if node_id != self._members.own:
            peer = group.peers.get(node_id, Peer(node_id))
            up = peer.connected
            heard = group.is_leader and peer.applied_index > 0
            applied, offset_ms = (peer.applied_index, round(peer.clock_offset_ms, 1)) if heard else (None, None)
            draining = peer.retiring and heard
        lag = None if applied is None else max(0, group.commit_index - applied)
        snapshot = self._snapshot(node_id)
        behind = snapshot is not None or bool(lag and lag > CATCHING_UP)
        state = "catching-up" if up and behind else "up" if up else "down"
        figures = {"applied_index": applied, "lag": lag, "clock_offset_ms": offset_ms, "snapshot": snapshot}
        return {**member, "state": state, "draining": draining, **figures, "reads": self._levels.reads()[node_id]}

    def ready(self) -> Readiness:
        """Return if this node serves, with the result of each check. It serves if a leader is known, and if all entries
        are applied here that were committed when it first heard the leader.

        A node that is short of space says so and is ready. It serves acks and pulls, which free space. Another node
        would not help: the same leader refuses the same new messages.
        """
        group = self._group
        leader = group.leader_id
        checks = {
            "leader": "ok" if leader else "no leader is known",
            "founded": "ok" if self._store.cluster_id else "the cluster is not founded yet",
            "caught_up": "ok",
            "clock": self._guard.clock_check(),
            "serving": "shutting down" if self._life.draining else "drained" if self._drain.drained else "ok",
            "disk": self._reserve.verdict(leads=self._leadership.term is not None),
        }
        if leader == self._members.own and self._leadership.term is None:
            checks["leader"] = "this node was elected and has not applied its first entry yet"
        if not self._caught_up():
            behind = f"applied {group.applied_index} of {group.known_commit} entries"
            checks["caught_up"] = behind if leader else "no leader was heard since the start"
        refusals = self._transport.refusals
        for node_id in self._members.ids():
            if not leader and node_id in refusals:  # most often the reason: another cluster's directory, a version
                checks["leader"] += f"; {refusals[node_id].detail}"
        return Readiness(all(check == "ok" for name, check in checks.items() if name != "disk"), checks)
