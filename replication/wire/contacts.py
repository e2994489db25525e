"""Whom a node talks to, and where: ids and addresses of the members, as of one change.

This is not who counts (raft/members.py), which follows from what is applied here and from nothing else. A node that was
down while all the others were replaced has applied none of that, and would wait for ever for nodes that are gone; so a
hello carries the speaker's list, and the newer list is dialled. The log index of the newest change tells which is the
newer; 0 is the configuration, which is all a new node has. Being talked to gives nobody a voice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

Address = tuple[str, int]
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]{2,64}\]|[0-9A-Fa-f:.%]{2,64}")


def is_address(text: str) -> bool:
    """Whether this is host:port, as far as a look at it can tell."""
    host, colon, port = text.rpartition(":")
    whole = bool(colon) and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16
    return whole and _HOST.fullmatch(host) is not None


def is_node_id(text: str) -> bool:
    """Whether a node may be named so."""
    return 1 <= len(text) <= 64 and all(each.isalnum() or each in "-_." for each in text)


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

    def beside(self, other: Contacts) -> Contacts:
        """These, and of another list whom it has besides, as of the newer change. What these say of a member stands,
        so another's list can add somebody to talk to and take nobody away."""
        if other.index <= self.index:
            return self
        ours = {contact.id for contact in self.members} | self.removed
        more = tuple(contact for contact in other.members if contact.id not in ours)
        return Contacts(other.index, self.members + more, self.removed)

    def merged(self, other: Contacts) -> Contacts:
        """The newer list of the two (`other` if they are equally new); what is removed stays so."""
        newer = self if self.index > other.index else other
        return replace(newer, removed=self.removed | other.removed)
