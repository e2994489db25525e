"""What a node says about itself and the cluster: GET /v1/cluster, /readyz, and the values of the metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from api.port.port import Readiness
from replication.raft.options import Peer
from storage.catalog.members import LEARNER

if TYPE_CHECKING:
    from node.server import Node


class Status:
    """Reads the node's parts; changes nothing."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def cluster(self) -> dict[str, Any]:
        """The document of GET /v1/cluster; the top level is group 0's."""
        node = self._node
        group, machine = node.group, node.machine
        dispatch = {
            "tick": machine.tick,
            "local_index": machine.local_index,
            "applied_index": machine.state_applied_index,
        }
        cluster_id = node.store.cluster_id
        return {
            "cluster_id": cluster_id.hex() if cluster_id else None,
            "leader": group.leader_id,
            "term": group.term,
            "commit_index": group.commit_index,
            "level": node.levels.level,
            "nodes": [self._member(node_id) for node_id in node.members.ids()],
            "dispatch": dispatch,
            "agreement": {"index": group.agreed_index, "split": node.guard.split or None},
            "lateness_ms": node.lateness.quantiles(),
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
        """One node as this one sees it. Peers' figures come in echoes of the leader's heartbeats; others know null."""
        node = self._node
        group = node.group
        listed, learns = node.members.contact(node_id), node.members.role(node_id) == LEARNER
        role = "leader" if group.leader_id == node_id else "learner" if learns else "follower"
        member: dict[str, Any] = {
            "id": node_id,
            "http": listed.http if listed is not None else None,
            "raft": listed.raft if listed is not None else None,
            "role": role,
        }
        applied: int | None = node.machine.applied_index
        offset_ms: float | None = 0.0
        up, draining = True, node.leaving.retiring
        if node_id != node.config.node_id:
            peer = group.peers.get(node_id, Peer(node_id))
            up = peer.connected
            heard = group.is_leader and peer.applied_index > 0
            applied, offset_ms = (peer.applied_index, round(peer.clock_offset_ms, 1)) if heard else (None, None)
            draining = peer.retiring and heard
        lag = None if applied is None else max(0, group.commit_index - applied)
        snapshot = node.snapshots.status(node_id)
        behind = snapshot is not None or bool(lag and lag > CATCHING_UP)
        state = "catching-up" if up and behind else "up" if up else "down"
        figures = {"applied_index": applied, "lag": lag, "clock_offset_ms": offset_ms, "snapshot": snapshot}
        return {**member, "state": state, "draining": draining, **figures, "reads": node.levels.reads()[node_id]}

    def ready(self) -> Readiness:
        """Ready: a leader is known, and what was committed when this node met it is applied here.

        A node that is short of space says so and is ready: it serves acks and pulls, which make room, and whatever
        node is asked instead, the same leader refuses the same new messages."""
        node = self._node
        group = node.group
        leader = group.leader_id
        checks = {
            "leader": "ok" if leader else "no leader is known",
            "founded": "ok" if node.store.cluster_id else "the cluster is not founded yet",
            "caught_up": "ok",
            "clock": node.guard.clock_check(),
            "serving": "shutting down" if node.life.draining else "drained" if node.leaving.drained else "ok",
            "disk": node.reserve.verdict(leads=node.reign is not None),
        }
        if leader == node.config.node_id and node.reign is None:
            checks["leader"] = "this node was elected and has not applied its first entry yet"
        if not node.caught_up():
            behind = f"applied {group.applied_index} of {group.known_commit} entries"
            checks["caught_up"] = behind if leader else "no leader was heard since the start"
        refusals = node.transport.refusals
        for node_id in node.members.ids():
            if not leader and node_id in refusals:  # most often the reason: another cluster's directory, a version
                checks["leader"] += f"; {refusals[node_id].detail}"
        return Readiness(all(check == "ok" for name, check in checks.items() if name != "disk"), checks)

    def topic_name(self, number: int) -> str | None:
        """The topic's name; None if it was deleted."""
        topic = self._node.store.catalog.topic_by_number(number)
        return topic.name if topic is not None else None

    def ready_of(self, topics: Sequence[str]) -> tuple[Sequence[int], int]:
        """Units in the ready windows of these topics, and of all; of a node that does not lead, none."""
        reign = self._node.reign
        if reign is None:
            return [0] * len(topics), 0
        found = map(self._node.store.catalog.topic, topics)
        counts = [0 if topic is None else reign.handing_over.ready_of(topic.number) for topic in found]
        return counts, reign.handing_over.ready_count

    def values(self) -> dict[str, float]:
        """The table of node.cluster.metrics."""
        node = self._node
        reign, held = node.reign, node.store.hours_held
        return {
            "hourwheel_scheduled": node.proposer.rows,
            "hourwheel_handed_over": node.counters.handed_over,
            "hourwheel_acked": node.counters.acked,
            "hourwheel_entries": node.proposer.entries,
            "hourwheel_leads": float(reign is not None),
            "hourwheel_untrusted_seconds": node.group.untrusted_s,
            "hourwheel_silence_seconds": node.group.silence.promise_s,
            "hourwheel_term": node.group.term,
            "hourwheel_commit_index": node.group.commit_index,
            "hourwheel_applied_index": node.machine.applied_index,
            "hourwheel_waiting": node.proposer.waiting_rows,
            "hourwheel_topics": node.store.catalog.topic_count,
            "hourwheel_http_connections": node.service.budget.connections,
            "hourwheel_http_held_bytes": node.service.budget.held_bytes,
            "hourwheel_http_refused": node.service.budget.refused,
            "hourwheel_ready": reign.ready_count if reign else 0,
            "hourwheel_pledged": reign.handing_over.strict.waiting if reign else 0,
            "hourwheel_released": node.counters.released,
            "hourwheel_near_hours": held.near,
            "hourwheel_used_hours": held.used,
            "hourwheel_heads_bytes": held.heads_bytes,
            "hourwheel_staged_bytes": node.store.staged_bytes,
            "hourwheel_free_bytes": node.reserve.free_bytes,
            **self._kept(),
            "hourwheel_clock_error_seconds": node.clock.error_ms() / 1000,
            "hourwheel_tick_seconds": node.machine.tick,
            "hourwheel_checkpoint_index": node.checkpointer.index,
            **node.guard.values(),
            "hourwheel_journal_bytes": node.journal.kept_bytes,
            **node.snapshots.values(),
            **node.exports.values(),
        }

    def _kept(self) -> dict[str, float]:
        """Of the last checkpoint: its oldest hour, and what is held by messages still open after the retentions."""
        node = self._node
        kept, genesis = node.checkpointer.kept, node.store.catalog.genesis
        retention_ms = max(genesis.retention_ms, genesis.key_retention_ms) if genesis is not None else 0
        return {
            "hourwheel_oldest_hour_seconds": kept.oldest * 3600 if kept.oldest is not None else math.nan,
            "hourwheel_kept_for_open_bytes": kept.open_bytes(node.clock.now_ms() - retention_ms),
        }


#: Entries behind which a node counts as catching up.
CATCHING_UP = 100
