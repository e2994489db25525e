"""Who the members are, as this node has applied it, and the changes that its leader makes of them.

The table of the catalog decides (storage/catalog/members.py, replication/raft/members.py); the configuration's peers
are what a node starts from before it has one. Only then, and to move a member to another address: of a member that is
listed there, the configured addresses are used.

    add      is it a member, or was it; does it answer at both addresses, to that id; has it other data  -> a learner
    promote  it is up, its disk forgets nothing, it lacks next to nothing, a majority of the new voters is up -> a voter
    remove   enough of those that stay are up, and have what it takes to go on at once     -> out

One at a time: from an addition until the vote nothing but taking that learner out again is begun. A leader that is to
go gives leadership to another one first, so nobody waits for an election; should it be elected with its own removal in
the log, it steps down when it has applied it. Whoever was removed ends, in order, and says why: when it applies its own
removal, or when a peer tells it, as it tells one that was down meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from api.port.member import MemberView
from api.port.problem import FieldFault, Problem
from node.cluster.status import CATCHING_UP
from node.write.command_queues import GROUP
from replication.apply.machine import Applied
from replication.apply.member import MemberChanged, why_not_added
from replication.command.entry import encode_entry
from replication.command.member import ADD, PROMOTE, REMOVE, ChangeMember
from replication.journal.logged_cluster import logged_clusters
from replication.raft.options import Peer
from replication.raft.proposal import CHANGING, NOT_LEADER, UNKNOWN
from replication.wire.contacts import Contact, Contacts, address_of
from replication.wire.handshake import UNKNOWN_NODE, Refusal
from replication.wire.listener import HEARSAY_MAX
from replication.wire.rhythm import next_look
from storage.catalog.members import LEARNER, REMOVED, VOTER, Member

if TYPE_CHECKING:
    from node.server import Node

log = structlog.get_logger()

#: How often a leader looks whether a learner can have its vote.
PROMOTE_S = 0.25
#: How often to look whether the sync that a change goes with has been made.
SPREAD_S = 0.002


ADVICE = (
    "Its data directory is of no more use to the cluster; to bring the machine back, start it with another node_id and "
    "an empty directory, and add that"
)


class NodeRemoved(Exception):
    """This node is no member of its cluster any more: it ends, and does not start again on this directory."""


class Membership:
    """The members of one node's group. Made when the store is open; `begin` once the group and the transport are."""

    def __init__(self, node: Node) -> None:
        """Raises NodeRemoved."""
        self._node = node
        self._own = node.config.node_id
        self._configured = {peer.id: Contact(peer.id, peer.raft, peer.http) for peer in node.config.peers}
        self.table = node.store.catalog.members
        found = self.table.find(self._own)
        if found is not None and found.role == REMOVED:
            raise NodeRemoved(self._removed(found))

    def begin(self) -> None:
        """Tell the group and the transport what the store knows, before they start."""
        node = self._node
        node.machine.on_members = self._applied
        node.transport.on_removed = self._told
        node.transport.on_contacts = node.forwarder.leader_changed
        node.transport.believed = self._believes
        node.transport.logged = lambda cluster_id: cluster_id in logged_clusters(node.journal, node.group.applied_index)
        if node.config.join:
            node.group.set_members(self._configured.keys() - {self._own}, (self._own,))
        self._count()
        node.transport.set_contacts(self._contacts())

    # -- what others ask

    @property
    def number(self) -> int:
        """This node's number in records: from the table, before there is one its place in the configuration; 0 while
        it is no member."""
        member = self.table.find(self._own)
        if member is not None or self.table.index or self._node.config.join:
            return member.number if member is not None else 0
        return sorted(self._configured).index(self._own) + 1

    def ids(self) -> list[str]:
        """All members as far as this node knows, in the order of their numbers."""
        current = [member.id for member in self.table.current()]
        return current or [contact.id for contact in self._contacts().members]

    def contact(self, node_id: str) -> Contact | None:
        """The addresses of a member, from the newest list this node has heard of."""
        return self._node.transport.contacts.find(node_id)

    def name(self, number: int) -> str:
        """The id of the member that has or had this number, empty if none."""
        return next((member.id for member in self.table.all() if member.number == number), "")

    def role(self, node_id: str) -> str:
        """voter, learner or removed; before there is a table the configured nodes are voters, but one that joins."""
        member = self.table.find(node_id)
        if member is not None:
            return member.role
        return LEARNER if self._node.config.join and node_id == self._own else VOTER

    @property
    def is_member(self) -> bool:
        """Whether this node is one, as far as it has applied; before a cluster is founded, by configuration."""
        return self.number > 0

    # -- changes

    async def add(self, node_id: str, raft: str, http: str) -> MemberView:
        """See api.port.member.MemberPort."""
        self._leads()
        known = self.table.find(node_id)
        if known is not None and known.role != REMOVED and (known.raft, known.http) == (raft, http):
            return _view(known)  # asked again by somebody who got no answer
        self._check_new(node_id, raft, http)
        said = await self._node.transport.probe(node_id, address_of(raft))
        if said is None:
            raise _fault("/raft", f"no node of this build answers at {raft}; start it first, with join = true")
        if isinstance(said, Refusal) and said.reason != UNKNOWN_NODE:  # which it will say until it is added
            raise _fault("/raft", f"the node at {raft} cannot join: {said.detail}")
        # The others would send there, once it leads, what they are asked; an address is fixed with the member.
        there = await self._node.forwarder.who(http)
        if there != node_id:
            found = "no node answers" if there is None else f"not {node_id} but {there} answers"
            raise _fault("/http", f"{found} HTTP at {http}; give the address at which other nodes reach {node_id}")
        self._check_new(node_id, raft, http)
        return await self._change(ChangeMember(ADD, node_id, self.table.index, raft, http))

    async def remove(self, node_id: str) -> MemberView:
        """See api.port.member.MemberPort."""
        self._leads()
        member = self.table.find(node_id)
        if member is None:
            raise Problem("unknown-node", f"no member of this cluster is named {node_id[:64]}")
        if member.role == REMOVED:
            return _view(member)  # asked again by somebody who got no answer
        self._check_free(but=node_id)
        if member.role == VOTER:
            self._check_quorum(node_id)
            if node_id == self._own:
                moved = await self._node.transfer.run(None)
                raise Problem("no-leader", f"leadership went to {moved.to_node}, which can remove {node_id}; ask again")
        return await self._change(ChangeMember(REMOVE, node_id, self.table.index))

    async def promote(self) -> None:
        """Until cancelled: give learners their votes, on the leader."""
        while True:
            await next_look(PROMOTE_S)
            ready = next(filter(self._has_caught_up, self._node.group.peers.values()), None)
            if ready is not None and self._node.reign is not None and not self._node.group.changing:
                with contextlib.suppress(Problem):  # leadership is lost, or about to be moved: the next leader does it
                    await self._change(ChangeMember(PROMOTE, ready.node_id, self.table.index))

    async def _change(self, command: ChangeMember) -> MemberView:
        node = self._node
        self._leads()
        if node.leadership.frozen or node.group.changing:
            raise _in_progress("leadership is being moved" if node.leadership.frozen else "another change is under way")
        entry = encode_entry(
            group=GROUP,
            term=node.group.term,
            node=self.number,
            now_ms=node.clock.now_ms(),
            sections=[command.pack()],
        )
        outcome = await node.driver.propose(entry)
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

    def _leads(self) -> None:
        node = self._node
        if node.life.draining:
            raise Problem("draining", "this node is shutting down; another one leads in a moment")
        if node.reign is None or not node.reign.trusted():
            raise Problem("no-leader", "this node is not sure to lead; nothing happened", leader=node.group.leader_id)

    def _check_new(self, node_id: str, raft: str, http: str) -> None:
        self._leads()
        why = why_not_added(self.table, node_id, raft, http)
        if why is not None:
            pointer = "/raft" if why.startswith(raft) else "/http" if why.startswith(http) else "/id"
            raise _fault(pointer, why)
        self._check_free()

    def _check_free(self, but: str = "") -> None:
        if self._node.group.changing:
            raise _in_progress("another change is under way")
        for member in self.table.current():
            if member.role == LEARNER and member.id != but:
                raise _in_progress(f"{member.id} is being added: wait until it has its vote, or remove it")

    def _check_quorum(self, node_id: str) -> None:
        """Whether those that stay can go on at once without that voter."""
        stay = [member.id for member in self.table.current() if member.role == VOTER and member.id != node_id]
        if not stay:
            raise Problem("quorum-loss", f"{node_id} is the last node with a vote; a cluster needs one")
        needed = len(stay) // 2 + 1
        peers = self._node.group.peers
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
        voters = [member.id for member in self.table.current() if member.role == VOTER]
        peers = self._node.group.peers
        up = sum(voter == self._own or (voter in peers and peers[voter].connected) for voter in voters) + 1
        able = peer.learner and peer.connected and peer.remembers and self._lag(peer) <= CATCHING_UP
        return able and up > (len(voters) + 1) // 2

    def _lag(self, peer: Peer) -> int:
        return self._node.group.last_index - min(peer.match_index, peer.applied_index)

    # -- what is applied

    def _applied(self) -> None:
        """A change, or Genesis, was applied; called from inside the group's tick."""
        self._count()
        self._node.life.spawn(self._spread(self._node.journal.write_seq))
        own = self.table.find(self._own)
        if own is not None and own.role == REMOVED:
            self._node.life.end(NodeRemoved(self._removed(own)))

    async def _spread(self, seq: int) -> None:
        """Talk to the members of now, when this disk knows that the change is committed: whoever was removed is told by
        that, and ends, and nobody who stays may need its vote any more."""
        while True:
            if self._node.journal.durable_seq >= seq:
                break
            await asyncio.sleep(SPREAD_S)
        self._node.transport.set_contacts(self._contacts())
        self._node.forwarder.leader_changed()

    def _count(self) -> None:
        node, current = self._node, self.table.current()
        if current:
            voters = [member.id for member in current if member.role == VOTER]
            node.group.set_members(voters, [member.id for member in current if member.role == LEARNER])
        node.proposer.node = node.delivery_log.node = self.number

    def _contacts(self) -> Contacts:
        """Whom this node knows by itself: the table's members, if it is one of them, or else the configured peers."""
        removed = frozenset(member.id for member in self.table.all() if member.role == REMOVED)
        current = self.table.current()
        if not any(member.id == self._own for member in current):
            return Contacts(0, tuple(self._configured.values()), removed)
        members = [self._configured.get(each.id) or Contact(each.id, each.raft, each.http) for each in current]
        return Contacts(self.table.index, tuple(members), removed)

    def _believes(self, index: int) -> bool:
        """Whether to talk to those whom another's list names, as of the change at `index`. A node that hears a leader
        learns of changes from the log, and what it has applied it knows better."""
        group = self._node.group
        return group.leader_id is None and group.applied_index < index <= group.last_index + HEARSAY_MAX

    def _removed(self, own: Member) -> str:
        return f"node {self._own} was removed from the cluster at entry {own.since_index}. {ADVICE}"

    def _told(self, why: str) -> None:
        """By a peer that knows it."""
        self._node.life.end(NodeRemoved(f"{why}. {ADVICE}"))


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
