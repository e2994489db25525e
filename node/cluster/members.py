"""The members of the cluster, as this node has applied them.

The table of the catalog decides who is a member (storage/tables/members.py, replication/raft/members.py). The peers in
the configuration have two uses only. A node starts from them before it has a table. And they move a member to another
address: if the configuration lists a member, its configured addresses are used.
"""

from __future__ import annotations

from collections.abc import Callable

from node.runtime.config import Config
from replication.wire.contacts import Contact, Contacts
from storage.tables.members import LEARNER, REMOVED, VOTER, Member
from storage.tables.members import Members as Table

ADVICE = (
    "Its data directory is of no more use to the cluster; to bring the machine back, start it with another node_id and "
    "an empty directory, and add that"
)


class NodeRemoved(Exception):
    """This node is no member of its cluster any more. The process ends with this error, and does not start again on
    this directory."""


class Members:
    """The members of one node's group. `own` is this node's id, `table` the catalog's table of members. `joins` is true
    if the node's configuration says that it is to be added to a cluster."""

    def __init__(self, config: Config, table: Table, heard: Callable[[], Contacts]) -> None:
        """`heard` returns the newest list of addresses that this node has heard of. Raises NodeRemoved."""
        self.own, self.table, self._heard = config.node_id, table, heard
        self.joins = config.join
        self.configured = {peer.id: Contact(peer.id, peer.raft, peer.http) for peer in config.peers}
        found = table.find(self.own)
        if found is not None and found.role == REMOVED:
            raise NodeRemoved(why_removed(found))

    @property
    def number(self) -> int:
        """This node's number in records, from the table of members. While the table is empty, it is the node's place in
        the configuration. It is 0 if the node is no member."""
        member = self.table.find(self.own)
        if member is not None or self.table.index or self.joins:
            return member.number if member is not None else 0
        return sorted(self.configured).index(self.own) + 1

    def ids(self) -> list[str]:
        """Return the ids of all members as far as this node knows, in the order of their numbers."""
        current = [member.id for member in self.table.current()]
        return current or [contact.id for contact in self.contacts().members]

    def contact(self, node_id: str) -> Contact | None:
        """Return the addresses of a member, from the newest list that this node has heard of. None if it is not in that
        list."""
        return self._heard().find(node_id)

    def name(self, number: int) -> str:
        """Return the id of the member that has, or once had, this number. "" if no member had it."""
        return next((member.id for member in self.table.all() if member.number == number), "")

    def role(self, node_id: str) -> str:
        """Return voter, learner or removed. For a node that the table does not have it is voter, or learner if that is
        this node and it joins."""
        member = self.table.find(node_id)
        if member is not None:
            return member.role
        return LEARNER if self.joins and node_id == self.own else VOTER

    def contacts(self) -> Contacts:
        """Return the list of members without what other nodes said. A member makes it from the table, any other node
        from its configuration."""
        removed = frozenset(member.id for member in self.table.all() if member.role == REMOVED)
        current = self.table.current()
        if not any(member.id == self.own for member in current):
            return Contacts(0, tuple(self.configured.values()), removed)
        members = [self.configured.get(each.id) or Contact(each.id, each.raft, each.http) for each in current]
        return Contacts(self.table.index, tuple(members), removed)


def why_removed(own: Member) -> str:
    """Return the text that says why a removed node ends, and what to do with its machine."""
    return f"node {own.id} was removed from the cluster at entry {own.since_index}. {ADVICE}"
