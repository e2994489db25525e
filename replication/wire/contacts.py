"""The nodes that a node talks to, and where: ids and addresses of the members, as of one change.

This does not say which nodes count (raft/members.py). That follows from what is applied here alone. A node may be down
while all the others are replaced. It has applied none of that, and would wait for ever for nodes that are gone. So a
hello carries the speaker's list, and a node dials the members of the newer list. The newer list has the higher log
index of its newest change. Index 0 is the configuration, which is all that a new node has. A node that is dialled gets
no vote by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

Address = tuple[str, int]
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]{2,64}\]|[0-9A-Fa-f:.%]{2,64}")


def is_address(text: str) -> bool:
    """True if this looks like host:port."""
    host, colon, port = text.rpartition(":")
    whole = bool(colon) and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16
    return whole and _HOST.fullmatch(host) is not None


def is_node_id(text: str) -> bool:
    """True if this may be the name of a node."""
    return 1 <= len(text) <= 64 and all(each.isalnum() or each in "-_." for each in text)


def address_of(text: str) -> Address:
    """(host, port) of `host:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Contact:
    """A member, and host:port of its two listeners as others reach them."""

    id: str
    raft: str
    http: str


@dataclass(frozen=True, slots=True)
class Contacts:
    """The members as of the change at log index `index`. Ids in `removed` never become members again."""

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
        """This list with the additional members of another list, if that is newer.

        What this list says of a member stays. So another list can add nodes to talk to, and can remove none.
        """
        if other.index <= self.index:
            return self
        ours = {contact.id for contact in self.members} | self.removed
        more = tuple(contact for contact in other.members if contact.id not in ours)
        return Contacts(other.index, self.members + more, self.removed)

    def merged(self, other: Contacts) -> Contacts:
        """The newer list of the two (`other` if they are equally new). Removed ids stay removed."""
        newer = self if self.index > other.index else other
        return replace(newer, removed=self.removed | other.removed)
