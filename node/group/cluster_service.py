"""Serves a group to the fronts as far as the cluster goes: its leader, its members, the state of a node.

A part of node/group/group_service.py.
"""

from __future__ import annotations

from api.port.backup import SnapshotView
from api.port.leadership import DrainView, OpenHandOvers, TakeoverView, TransferResult
from api.port.member import MemberView
from api.port.port import Readiness
from api.port.problem import Problem
from node.group.at_work import AtWork, reads_files
from node.group.service_parts import ServiceParts
from node.handover.term import Term
from node.port.group_port import (
    BackupAsked,
    ClusterDocument,
    Level,
    LevelAsked,
    MemberAsked,
    MetricFamilies,
    NodeNamed,
    OutcomesSent,
    OutcomesTaken,
)
from node.settle.former_leader_outcomes import FormerLeaderOutcomes


class ClusterService:
    """Implements ClusterPort for one group on one node, except for `records`."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts, self._leadership = parts, parts.leadership
        self.at_work, self.life = AtWork(), parts.life
        self._former_leaders = FormerLeaderOutcomes(
            parts.store, parts.clock, parts.entropy, parts.proposer, parts.topic_metrics
        )

    async def transfer(self, asked: NodeNamed) -> TransferResult:
        """See ClusterPort."""
        return await self._parts.transfer.run(asked.node)

    async def drain(self, asked: NodeNamed) -> DrainView:
        """See ClusterPort."""
        return await self._parts.drain.drain(asked.node)

    async def undrain(self, asked: NodeNamed) -> DrainView:
        """See ClusterPort."""
        return await self._parts.drain.undo(asked.node)

    @reads_files
    async def outcomes(self, told: OutcomesSent) -> OutcomesTaken:
        """See ClusterPort. A leader takes outcomes even while it lacks trust or is about to give leadership away, so
        that it hands nothing over."""
        return OutcomesTaken(tuple(await self._former_leaders.take(self._established(), told.outcomes)))

    async def takeover(self, told: OpenHandOvers) -> TakeoverView:
        """See ClusterPort."""
        return await self._established().account(told)

    def _established(self) -> Term:
        if self._leadership.term is None:
            raise Problem("no-leader", "this node does not lead; nothing happened")
        return self._leadership.term

    async def add_member(self, asked: MemberAsked) -> MemberView:
        """See ClusterPort."""
        return await self._parts.member_changes.add(asked.node, asked.raft, asked.http)

    async def remove_member(self, asked: NodeNamed) -> MemberView:
        """See ClusterPort."""
        assert asked.node is not None, "which member"
        return await self._parts.member_changes.remove(asked.node)

    async def upgrade(self, asked: LevelAsked) -> Level:
        """See ClusterPort."""
        return Level(await self._parts.levels.upgrade(asked.level))

    async def snapshot(self, asked: BackupAsked) -> SnapshotView:
        """See ClusterPort."""
        return await self._parts.backups.write(asked.directory)

    async def cluster(self) -> ClusterDocument:
        """See ClusterPort."""
        return ClusterDocument(self._parts.status.cluster())

    async def ready(self) -> Readiness:
        """See ClusterPort."""
        return self._parts.status.ready()

    async def metrics(self) -> MetricFamilies:
        """See ClusterPort."""
        return self._parts.metrics.families()
