"""The nodes that a node talks to: the ids and addresses of the members after one change of the membership.

This list does not say which nodes have a vote (raft/members.py). That follows from the entries that this node has
applied. A node may be down while all other nodes are replaced. It has applied none of these changes, and would wait for
ever for nodes that are gone. So a hello carries the list of the node that sends it, and a node dials the members of the
newer list. The newer list is the one whose newest change has the higher log index. Index 0 is the list of the
configuration, the only one that a new node has. A node gets no vote by being dialled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

Address = tuple[str, int]
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]{2,64}\]|[0-9A-Fa-f:.%]{2,64}")


def is_address(text: str) -> bool:
    """True if the text has the form host:port."""
    host, colon, port = text.rpartition(":")
    whole = bool(colon) and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16
    return whole and _HOST.fullmatch(host) is not None


def is_node_id(text: str) -> bool:
    """True if the text may be the id of a node: 1 to 64 letters, digits, `-`, `_` or `.`."""
    return 1 <= len(text) <= 64 and all(each.isalnum() or each in "-_." for each in text)


def address_of(text: str) -> Address:
    """(host, port) of `host:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Contact:
    """A member: its id, and the addresses of its two listeners (Raft and HTTP) as other nodes reach them, host:port."""

    id: str
    raft: str
    http: str


@dataclass(frozen=True, slots=True)
class Contacts:
    """The members after the change at log index `index`. Ids in `removed` never become members again."""

    index: int = 0
    members: tuple[Contact, ...] = ()
    removed: frozenset[str] = frozenset()

    def find(self, node_id: str) -> Contact | None:
        """The member with this id, None if there is none."""
        return next((contact for contact in self.members if contact.id == node_id), None)

    def lists(self, *node_ids: str) -> bool:
        """True if all of these are members."""
        return {*node_ids} <= {contact.id for contact in self.members}

    def beside(self, other: Contacts) -> Contacts:
        """This list, with those members of the list `other` that this one does not have. If `other` is not newer, it
        adds none.

        The addresses in this list stay as they are. So another list can add nodes to talk to, and can remove none.
        """
        if other.index <= self.index:
            return self
        ours = {contact.id for contact in self.members} | self.removed
        more = tuple(contact for contact in other.members if contact.id not in ours)
        return Contacts(other.index, self.members + more, self.removed)

    def merged(self, other: Contacts) -> Contacts:
        """The newer one of both lists, `other` if they have the same index. Ids that are removed in either list are
        removed in the result.
        """
        newer = self if self.index > other.index else other
        return replace(newer, removed=self.removed | other.removed)
