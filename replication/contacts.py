"""Whom a node talks to, and where: ids and addresses of the members, as of one change.

This is not who counts (membership.py), which follows from what is applied here and from nothing else. A node that was
down while all the others were replaced has applied none of that, and would wait for ever for nodes that are gone; so a
hello carries the speaker's list, and the newer list is dialled. The log index of the newest change tells which is the
newer; 0 is the configuration, which is all a new node has. Being talked to gives nobody a voice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Address = tuple[str, int]


def address_of(text: str) -> Address:
    """(host, port) of `host:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Contact:
    """One member, and host:port of its two listeners as others reach them."""

    id: str
    raft: str
    http: str


@dataclass(frozen=True, slots=True)
class Contacts:
    """The members as of the change at log index `index`; `removed` are ids that are members no more and never again."""

    index: int = 0
    members: tuple[Contact, ...] = ()
    removed: frozenset[str] = frozenset()

    def find(self, node_id: str) -> Contact | None:
        """The member of this id, None if there is none."""
        return next((contact for contact in self.members if contact.id == node_id), None)

    def lists(self, *node_ids: str) -> bool:
        """Whether all of these are members."""
        return {*node_ids} <= {contact.id for contact in self.members}

    def merged(self, other: Contacts) -> Contacts:
        """The newer list of the two (`other` if they are equally new); what is removed stays so."""
        newer = self if self.index > other.index else other
        return replace(newer, removed=self.removed | other.removed)
