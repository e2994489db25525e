"""Raises the level of the cluster. The leader proposes a level, and every node takes it over when it applies that
entry.

    every node          says in its hello which entries it reads
    leader              all members, learners too, are connected both ways and read the next level
                        -> RaiseLevel, an entry of its own
    every node          applies it: entries, files and hello of the new level; peers that do not read it are refused

A member that is away holds the level where it is. It may come back with an older build, which could not read what the
others wrote meanwhile. With `raft.upgrade = "asked"` the level rises only when an operator asks for it. Until then the
operator can go back to the older build.
"""

from __future__ import annotations

import structlog

from api.port.problem import Problem
from node.cluster.members import Members
from node.handover.term import Leadership
from node.runtime.lifecycle import Lifecycle
from node.write.own_entry import OwnEntries
from node.write.proposer import Proposer
from replication.apply.machine import Applied, Machine
from replication.command.level import RaiseLevel
from replication.group import RaftGroup
from replication.raft.proposal import NOT_LEADER, OVERLOADED, UNKNOWN
from replication.wire.handshake import Range
from replication.wire.transport import Transport
from storage.format.level import LEVELS, NEEDS, has

log = structlog.get_logger()

AUTO = "auto"


class Levels:
    """The level of the cluster, as one node knows it and raises it. Make it after the state machine, the transport and
    the proposer, because it uses all three."""

    def __init__(
        self,
        members: Members,
        machine: Machine,
        transport: Transport,
        group: RaftGroup,
        entries: OwnEntries,
        proposer: Proposer,
        leadership: Leadership,
        life: Lifecycle,
        *,
        upgrade: str,
    ) -> None:
        """`upgrade` is the setting `raft.upgrade`: with `auto` the leader raises the level by itself, with `asked` only
        on request."""
        self._members, self._machine, self._transport, self._group = members, machine, transport, group
        self._entries, self._proposer = entries, proposer
        self._leadership, self._life, self._upgrade = leadership, life, upgrade
        self._raising = False
        machine.told.on_level = self._rose
        self._tell()

    @property
    def level(self) -> int:
        """The level that this node has applied."""
        return self._machine.level

    def reads(self) -> dict[str, Range | None]:
        """Return the oldest and newest version of entries that each member reads, by the member's id. None for a member
        that is not connected."""
        heard, own = self._transport.reads(), self._members.own
        return {member: LEVELS if member == own else heard.get(member) for member in self._members.ids()}

    def lagging(self, level: int) -> str | None:
        """Return a text that names a member which cannot read this level, and the reason. None if all members can."""
        for member, span in sorted(self.reads().items()):
            if span is None:
                return f"{member} is not connected, so nobody knows what it reads"
            if span[1] < level:
                return f"{member} reads versions {span[0]} to {span[1]}"
        return None

    def require(self, feature: str) -> None:
        """Raise `not-supported-yet` if the cluster's level does not have the feature. The refusal names the member that
        lags."""
        if not has(self.level, feature):
            raise self._not_yet(NEEDS[feature])

    async def upgrade(self, level: int | None) -> int:
        """See api.port.member.MemberPort."""
        wanted = LEVELS[1] if level is None else level
        if self.level >= wanted:
            return self.level
        self._require_readers(wanted)
        if not self._leads():
            raise Problem("no-leader", "this node is not sure to lead; nothing happened")
        if not self._free() or self._raising:
            raise Problem("change-in-progress", "the members or the leader are being changed; try again in a moment")
        while self.level < wanted:
            self._require_readers(wanted)  # a member may have left since the last step
            self._refuse(await self._raise(self.level + 1))
        return self.level

    def _require_readers(self, level: int) -> None:
        if self.lagging(level) is not None:
            raise self._not_yet(level)

    def _not_yet(self, level: int) -> Problem:
        why, reads = self.lagging(level), self.reads()
        lagging = next((member for member, span in sorted(reads.items()) if span is None or span[1] < level), None)
        detail = f"this needs level {level}, and the cluster is at level {self.level}: "
        if lagging is None:
            return Problem("not-supported-yet", f"{detail}it rises in a moment, or when it is asked to")
        return Problem("not-supported-yet", f"{detail}{why}", node=lagging, reads=reads[lagging], level=self.level)

    @staticmethod
    def _refuse(error: str | None) -> None:
        if error is None:
            return
        if error in (NOT_LEADER, OVERLOADED):
            raise Problem("no-leader", "leadership was lost, or too much waits to be written; nothing changed")
        if error == UNKNOWN:
            raise Problem("outcome-unknown", "the change is in the log and not known to be committed; GET /v1/cluster")
        raise Problem("change-in-progress", f"{error}; try again in a moment")

    def look(self) -> None:
        """Raise the level by one if all members read the next one. Housekeeping calls this every 0.5 s. It does nothing
        unless this node leads and `upgrade` is `auto`."""
        due = self._upgrade == AUTO and self.level < LEVELS[1]
        if due and not self._raising and self._leads() and self._free() and self.lagging(self.level + 1) is None:
            self._raising = True
            self._life.spawn(self._follow())

    async def _follow(self) -> None:
        try:
            if self.lagging(self.level + 1) is None:  # a step of the loop has gone by, in which a member may have left
                await self._raise(self.level + 1)
        finally:
            self._raising = False

    def _leads(self) -> bool:
        term = self._leadership.term
        return term is not None and term.trusted() and not self._life.draining

    def _free(self) -> bool:
        """True unless leadership or the members are being changed."""
        return not self._leadership.frozen and not self._group.changing

    async def _raise(self, level: int) -> str | None:
        """Propose to raise the level to `level`. Return None if it rose, otherwise the error of the proposal."""
        outcome = await self._entries.propose(RaiseLevel(level, self._members.table.index).pack(), version=level)
        applied: Applied | None = outcome.result
        if outcome.error is not None or applied is None:
            return outcome.error or UNKNOWN
        return None if self.level >= level else "the members changed meanwhile"

    def _rose(self) -> None:
        """Take over a new level. The group calls this while it applies the RaiseLevel."""
        log.info("the level of the cluster rose", level=self.level, index=self._group.applied_index + 1)
        self._tell()
        if self._leadership.term is not None:
            self._leadership.term.level_rose()

    def _tell(self) -> None:
        self._transport.set_level(self.level)
        self._proposer.level = self.level
