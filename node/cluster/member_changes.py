"""The changes that a leader makes of the members, and what every node does when a change is applied.

    change   the leader checks                                                                          the node becomes
    add      the id is new; the node answers with it at both addresses, and has no other data               a learner
    promote  it is up, keeps its votes on disk, lacks next to nothing; a majority of the new voters is up   a voter
    remove   a majority of the voters that stay is up and lacks next to nothing                             no member

One change is made at a time: from an addition until the vote the only other change is to take that learner out again. A
leader that is to be removed gives leadership to another node first, so no client waits for an election. If it is
elected with its own removal in the log, it steps down when it has applied it. A removed node ends in order and says
why. It ends when it applies its own removal. If it was down at that time, a peer tells it later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from api.port.member import MemberView
from api.port.problem import FieldFault, Problem
from node.cluster.members import ADVICE, Members, NodeRemoved, why_removed
from node.cluster.transfer import Transfer
from node.handover.delivery_log import DeliveryLog
from node.handover.term import Leadership
from node.port.peer_port import PeerPort
from node.runtime.lifecycle import Lifecycle
from node.write.own_entry import OwnEntries
from node.write.proposer import Proposer
from replication.apply.machine import Applied, Machine
from replication.apply.member import MemberChanged, why_not_added
from replication.command.member import ADD, PROMOTE, REMOVE, ChangeMember
from replication.group import RaftGroup
from replication.journal.journal import Journal
from replication.journal.logged_cluster import logged_clusters
from replication.raft.options import CATCHING_UP, Peer
from replication.raft.proposal import CHANGING, NOT_LEADER, UNKNOWN
from replication.wire.contacts import address_of
from replication.wire.handshake import UNKNOWN_NODE, Refusal
from replication.wire.listener import HEARSAY_MAX
from replication.wire.periodic import next_look
from replication.wire.transport import Transport
from storage.tables.members import LEARNER, REMOVED, VOTER, Member

log = structlog.get_logger()

#: Seconds between two looks of a leader for a learner that can have its vote.
PROMOTE_S = 0.25
#: Seconds between two looks if the journal's sync with a change in it is done.
SPREAD_S = 0.002


class MemberChanges:
    """Changes the members of one node's group, and does what follows from changes. Call `begin` after the group and the
    transport are made, and before they start."""

    def __init__(
        self,
        members: Members,
        machine: Machine,
        transport: Transport,
        group: RaftGroup,
        entries: OwnEntries,
        journal: Journal,
        proposer: Proposer,
        delivery_log: DeliveryLog,
        transfer: Transfer,
        peers: PeerPort,
        leadership: Leadership,
        life: Lifecycle,
        status_changed: Callable[[], None],
    ) -> None:
        self._members, self._own, self._table = members, members.own, members.table
        self._machine, self._transport, self._group = machine, transport, group
        self._entries, self._journal, self._proposer, self._delivery_log = entries, journal, proposer, delivery_log
        self._transfer, self._peers = transfer, peers
        self._leadership, self._life, self._status_changed = leadership, life, status_changed

    def begin(self) -> None:
        """Tell the group and the transport which members the store knows, and take their callbacks."""
        group, journal, transport = self._group, self._journal, self._transport
        self._machine.told.on_members = self._applied
        transport.on_removed = self._told
        transport.on_contacts = self._status_changed
        transport.believed = self._believes
        transport.logged = lambda cluster_id: cluster_id in logged_clusters(journal, group.applied_index)
        if self._members.joins:
            group.set_members(self._members.configured.keys() - {self._own}, (self._own,))
        self._count()
        transport.set_contacts(self._members.contacts())

    # -- changes

    async def add(self, node_id: str, raft: str, http: str) -> MemberView:
        """See api.port.member.MemberPort."""
        self._leadership.require()
        known = self._table.find(node_id)
        if known is not None and known.role != REMOVED and (known.raft, known.http) == (raft, http):
            return _view(known)  # asked again by a client that got no answer
        self._check_new(node_id, raft, http)
        said = await self._transport.probe(node_id, address_of(raft))
        if said is None:
            raise _fault("/raft", f"no node of this build answers at {raft}; start it first, with join = true")
        if isinstance(said, Refusal) and said.reason != UNKNOWN_NODE:  # it refuses with this reason until it is added
            raise _fault("/raft", f"the node at {raft} cannot join: {said.detail}")
        # The other nodes send requests to this address once the node leads. The address is fixed with the member.
        there = await self._peers.who(http)
        if there != node_id:
            found = "no node answers" if there is None else f"not {node_id} but {there} answers"
            raise _fault("/http", f"{found} HTTP at {http}; give the address at which other nodes reach {node_id}")
        self._check_new(node_id, raft, http)
        return await self._change(ChangeMember(ADD, node_id, self._table.index, raft, http))

    async def remove(self, node_id: str) -> MemberView:
        """See api.port.member.MemberPort."""
        self._leadership.require()
        member = self._table.find(node_id)
        if member is None:
            raise Problem("unknown-node", f"no member of this cluster is named {node_id[:64]}")
        if member.role == REMOVED:
            return _view(member)  # asked again by a client that got no answer
        self._check_free(but=node_id)
        if member.role == VOTER:
            self._check_quorum(node_id)
            if node_id == self._own:
                moved = await self._transfer.run(None)
                raise Problem("no-leader", f"leadership went to {moved.to_node}, which can remove {node_id}; ask again")
        return await self._change(ChangeMember(REMOVE, node_id, self._table.index))

    async def promote(self) -> None:
        """Give learners their votes, on the leader, until cancelled."""
        while True:
            await next_look(PROMOTE_S)
            ready = next(filter(self._has_caught_up, self._group.peers.values()), None)
            if ready is not None and self._leadership.term is not None and not self._group.changing:
                with contextlib.suppress(Problem):  # leadership is lost, or about to be moved: the next leader does it
                    await self._change(ChangeMember(PROMOTE, ready.node_id, self._table.index))

    async def _change(self, command: ChangeMember) -> MemberView:
        self._leadership.require()
        if self._leadership.frozen:
            raise _in_progress("leadership is being moved")
        if self._group.changing:
            raise _in_progress("another change is under way")
        outcome = await self._entries.propose(command.pack())
        if outcome.error == NOT_LEADER:
            raise Problem("no-leader", "leadership was lost; nothing changed")
        if outcome.error == CHANGING:
            raise _in_progress("another change is under way")
        if outcome.error == UNKNOWN:
            raise Problem("outcome-unknown", "the change is in the log and not known to be committed; GET /v1/cluster")
        if outcome.error is not None:
            raise Problem("over-limit", "too much waits to be written; nothing changed")
        applied: Applied = outcome.result
        changed: MemberChanged = applied.results[0]
        if changed.member is None:
            raise _in_progress(changed.void or "")
        log.info("members changed", what=command.what, member=command.id, index=outcome.index)
        return _view(changed.member)

    def _check_new(self, node_id: str, raft: str, http: str) -> None:
        self._leadership.require()
        why = why_not_added(self._table, node_id, raft, http)
        if why is not None:
            pointer = "/raft" if why.startswith(raft) else "/http" if why.startswith(http) else "/id"
            raise _fault(pointer, why)
        self._check_free()

    def _check_free(self, but: str = "") -> None:
        if self._group.changing:
            raise _in_progress("another change is under way")
        for member in self._table.current():
            if member.role == LEARNER and member.id != but:
                raise _in_progress(f"{member.id} is being added: wait until it has its vote, or remove it")

    def _check_quorum(self, node_id: str) -> None:
        """Raise a Problem unless the voters that stay without `node_id` can commit at once."""
        stay = [member.id for member in self._table.current() if member.role == VOTER and member.id != node_id]
        if not stay:
            raise Problem("quorum-loss", f"{node_id} is the last node with a vote; a cluster needs one")
        needed = len(stay) // 2 + 1
        peers = self._group.peers
        up = [voter for voter in stay if voter == self._own or (peers[voter].connected and peers[voter].voter)]
        if len(up) < needed:
            raise Problem(
                "quorum-loss",
                f"without {node_id} the votes are {', '.join(stay)}, {needed} of them are needed, and up "
                f"{'is' if len(up) == 1 else 'are'} {', '.join(up) or 'none'}",
            )
        able = [voter for voter in up if voter == self._own or self._lag(peers[voter]) <= CATCHING_UP]
        if len(able) < needed:
            behind = ", ".join(voter for voter in up if voter not in able)
            raise Problem("not-caught-up", f"without {node_id} every commit would wait for {behind}, which lags")

    def _has_caught_up(self, peer: Peer) -> bool:
        voters = [member.id for member in self._table.current() if member.role == VOTER]
        peers = self._group.peers
        up = sum(voter == self._own or (voter in peers and peers[voter].connected) for voter in voters) + 1
        able = peer.learner and peer.connected and peer.remembers and self._lag(peer) <= CATCHING_UP
        return able and up > (len(voters) + 1) // 2

    def _lag(self, peer: Peer) -> int:
        return self._group.last_index - min(peer.match_index, peer.applied_index)

    # -- what is applied

    def _applied(self) -> None:
        """Do what follows from a change of members, or from Genesis, that was applied. Called inside the group's
        tick."""
        self._count()
        self._life.spawn(self._spread(self._journal.write_seq))
        own = self._table.find(self._own)
        if own is not None and own.role == REMOVED:
            self._life.end(NodeRemoved(why_removed(own)))

    async def _spread(self, seq: int) -> None:
        """Wait until this node's disk knows that a change is committed, which is write `seq` of the journal. Then use
        the new list of members for connections. A removed node then hears that it was removed, and ends. That may
        happen only when the commit of its removal does not need its vote any more."""
        while True:
            if self._journal.durable_seq >= seq:
                break
            await asyncio.sleep(SPREAD_S)
        self._transport.set_contacts(self._members.contacts())
        self._status_changed()

    def _count(self) -> None:
        current = self._table.current()
        if current:
            voters = [member.id for member in current if member.role == VOTER]
            self._group.set_members(voters, [member.id for member in current if member.role == LEARNER])
        self._proposer.node = self._delivery_log.node = self._members.number

    def _believes(self, index: int) -> bool:
        """True if this node may take over another node's list of members, as of the change at `index`. A node that
        hears a leader may not, because it learns of changes from the log. No node takes over a list that is not newer
        than its applied entries, or one of an index that is far too high."""
        group = self._group
        return group.leader_id is None and group.applied_index < index <= group.last_index + HEARSAY_MAX

    def _told(self, why: str) -> None:
        """End this node, because a peer says that it was removed."""
        self._life.end(NodeRemoved(f"{why}. {ADVICE}"))


def _view(member: Member) -> MemberView:
    return MemberView(
        id=member.id,
        number=member.number,
        raft=member.raft,
        http=member.http,
        role=member.role,
        index=member.since_index,
    )


def _fault(pointer: str, detail: str) -> Problem:
    return Problem("invalid-field", detail, errors=[FieldFault(pointer, detail)])


def _in_progress(why: str) -> Problem:
    return Problem("change-in-progress", f"{why}; one change of the members at a time")
