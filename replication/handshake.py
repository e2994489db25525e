"""Who is speaking: the first frame of every connection, in both directions, and the reasons to hang up.

A Raft node that listens to the wrong peer loses data politely: one of another cluster, one whose disk was swapped, one
that was told another address. So nothing but a hello is accepted first, both sides check, and a refusal is answered
with its reason, logged and kept for `cluster status`: a mistake in a config file is then read, not guessed.

A hello also says whom the speaker knows as members (contacts.py): a node that is not in our list and shows a newer one,
of our cluster, that names us both, is let in, or a node that slept through changes would refuse those who came since. A
node that was removed is told so, and stops: it would ask for ever.

`store_id` names the directory a node works on, drawn when the directory was made. The same node id with another store
id is a wiped disk: what the leader believed to be on it (its match index) is not there any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replication.contacts import Contact, Contacts
from replication.frame import PROTOCOL, FrameRefused, encode_frame, unpack_meta

HELLO = 100
REFUSAL = 101
REMOVED = "removed"
UNKNOWN_NODE = "unknown-node"
Range = tuple[int, int]


@dataclass(frozen=True)
class Hello:
    """What a node says of itself. `cluster_id` is None before Genesis; `formats` maps a name to (oldest, newest)."""

    node_id: str
    to: str
    store_id: bytes
    cluster_id: bytes | None
    formats: dict[str, Range] = field(default_factory=dict)
    protocol: Range = PROTOCOL
    contacts: Contacts = field(default_factory=Contacts)

    def encode(self) -> list[bytes]:
        """The hello as a frame."""
        formats = {name: list(span) for name, span in sorted(self.formats.items())}
        members = [[contact.id, contact.raft, contact.http] for contact in self.contacts.members]
        who = [self.cluster_id, self.node_id, self.to, self.store_id]
        return encode_frame([HELLO, *self.protocol, *who, formats, self.contacts.index, members])


@dataclass(frozen=True)
class Refusal:
    """Why a connection was not accepted: `reason` is a code for programs, `detail` a sentence for people."""

    reason: str
    detail: str

    def encode(self) -> list[bytes]:
        """The refusal as a frame."""
        return encode_frame([REFUSAL, self.reason, self.detail[:200]])


def decode_greeting(meta: bytes) -> Hello | Refusal:
    """The first frame of a connection. Raises FrameRefused if it is neither hello nor refusal."""
    fields = unpack_meta(meta)
    if len(fields) == 3 and fields[0] == REFUSAL and all(type(text) is str for text in fields[1:]):
        return Refusal(fields[1], fields[2])
    if len(fields) != 10 or fields[0] != HELLO:
        raise FrameRefused("the first frame is not a hello")
    _kind, oldest, newest, cluster_id, node_id, to, store_id, formats, index, members = fields
    if not (_is_range((oldest, newest)) and type(node_id) is str and type(to) is str and type(store_id) is bytes):
        raise FrameRefused("hello with a field of the wrong type")
    if not (cluster_id is None or (type(cluster_id) is bytes and len(cluster_id) == 16)) or type(formats) is not dict:
        raise FrameRefused("hello with a field of the wrong type")
    if not all(type(name) is str and type(span) is list and _is_range(span) for name, span in formats.items()):
        raise FrameRefused("hello with a format range that is none")
    spans = {name: (span[0], span[1]) for name, span in formats.items()}
    return Hello(node_id, to, store_id, cluster_id, spans, (oldest, newest), _contacts(index, members))


def _contacts(index: Any, members: Any) -> Contacts:
    if type(index) is not int or not 0 <= index < 1 << 63 or type(members) is not list:
        raise FrameRefused("hello with members that are none")
    for fields in members:
        if type(fields) is not list or len(fields) != 3 or any(type(text) is not str for text in fields):
            raise FrameRefused("hello with a member that is none")
    return Contacts(index, tuple(Contact(*fields) for fields in members))


def _is_range(span: Any) -> bool:
    return len(span) == 2 and all(type(end) is int and 0 <= end < 1 << 31 for end in span) and span[0] <= span[1]


def _overlap(ours: Range, theirs: Range) -> bool:
    return ours[0] <= theirs[1] and theirs[0] <= ours[1]


def check(own: Hello, theirs: Hello) -> Refusal | None:
    """Whether `theirs` may talk with us; None is yes. `own.to` is not looked at."""
    if not _overlap(own.protocol, theirs.protocol):
        return Refusal("protocol", f"{theirs.node_id} speaks protocol {theirs.protocol}, {own.node_id} {own.protocol}")
    if theirs.to != own.node_id:
        return Refusal("wrong-address", f"{theirs.node_id} looks for {theirs.to}, this is {own.node_id}")
    if own.cluster_id is not None and theirs.cluster_id is not None and own.cluster_id != theirs.cluster_id:
        return Refusal(
            "other-cluster",
            f"{theirs.node_id} belongs to cluster {theirs.cluster_id.hex()}, {own.node_id} to {own.cluster_id.hex()}",
        )
    refusal = _check_members(own, theirs)
    if refusal is not None:
        return refusal
    for name, ours in sorted(own.formats.items()):
        span = theirs.formats.get(name)
        if span is not None and not _overlap(ours, span):
            return Refusal("format", f"{theirs.node_id} reads {name} {span}, {own.node_id} {ours}")
    return None


def newer(own: Hello, theirs: Hello) -> bool:
    """Whether their list of members is to be used in place of ours: newer, of our cluster, with both of us on it."""
    same = theirs.cluster_id is not None and own.cluster_id in (None, theirs.cluster_id)
    return same and theirs.contacts.index > own.contacts.index and theirs.contacts.lists(own.node_id, theirs.node_id)


def _check_members(own: Hello, theirs: Hello) -> Refusal | None:
    if theirs.node_id in own.contacts.removed:
        return Refusal(REMOVED, f"{theirs.node_id} was removed from this cluster; an id is not given again")
    ours = {contact.id for contact in own.contacts.members}
    if theirs.node_id == own.node_id or (theirs.node_id not in ours and not newer(own, theirs)):
        return Refusal(UNKNOWN_NODE, f"{theirs.node_id} is not a member, as far as {own.node_id} knows: add it")
    said = {contact.id for contact in theirs.contacts.members}
    founding = own.cluster_id is None and theirs.cluster_id is None
    if founding and said and ours != said:
        detail = f"{theirs.node_id} is configured with peers {sorted(said)}, {own.node_id} with {sorted(ours)}"
        return Refusal("other-peers", f"{detail}: nodes that found a cluster must list the same")
    return None
