"""The first frame of every connection, in both directions: the hello, which names the node that sends it, or a refusal.

A Raft node that listens to the wrong peer loses data without an error. Such a peer is of another cluster, or has a
swapped disk or a wrong address. So the first frame must be a hello, and both sides check it. A node answers a bad hello
with the reason, logs it, and keeps it for `cluster status`. So an operator can read there that a config file is wrong.

A hello also lists the members that its node knows (contacts.py). A node that is not in our list is accepted if it shows
a newer list of our cluster that names both of us. Otherwise a node that was down during changes would refuse the nodes
that came since. A node that was removed is told so and stops. Otherwise it would go on asking.

A hello has ten fields that every build reads. From protocol 2 on it can have an eleventh, a map that later builds add
to: `group` and `level`. No node sends the long form first to a node that may not read it. A node dials with the long
form once the level of the cluster is high enough (storage/format/level.py). It answers in the form that the other node
understands.

`store_id` names the data directory of a node, drawn when the directory was made. The same node id with another store id
means a wiped disk. What the leader believed to be on that disk (its match index) is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replication.wire.contacts import Contact, Contacts, is_address, is_node_id
from replication.wire.frame import PROTOCOL, FrameRefused, encode_frame, unpack_meta
from replication.wire.frame_bound import INDEX_MAX
from storage.format.level import FOUNDED, has

HELLO = 100
REFUSAL = 101
CALLS = 102
"""The first number of a greeting that asks for calls between nodes (node/peer_wire/greeting.py)."""
CALLS_FORMAT = "calls"
"""The name in `formats` of the versions of calls that a node reads."""
REMOVED = "removed"
UNKNOWN_NODE = "unknown-node"
OTHER_CLUSTER = "other-cluster"
MEMBERS_MAX = 32
"""Bound on the list in a hello. A cluster has nine members at most, but a configuration may name more nodes."""
STORE_ID_MAX = 64
Range = tuple[int, int]
_FIELDS = 10
_GROUPS = 1 << 12


def asks_for_calls(meta: bytes) -> bool:
    """True if the first frame of a connection asks for calls: its meta is a short array that begins with the number
    CALLS.
    """
    return meta[1:2] == bytes((CALLS,)) and meta[0] & 0xF0 == 0x90


def entries_of(formats: dict[str, Range]) -> Range:
    """The versions of entries that a node with these formats reads, as (oldest, newest). The first builds do not name
    them.
    """
    return formats.get("entry", (FOUNDED, FOUNDED))


@dataclass(frozen=True)
class Hello:
    """The description that a node sends of itself to the node `to`.

    `cluster_id` is None before Genesis. `formats` maps the name of a format to the versions that the node reads, as
    (oldest, newest). `protocol` has the oldest and the newest protocol that it knows. `level` is the cluster's, as far
    as the node has applied.
    """

    node_id: str
    to: str
    store_id: bytes
    cluster_id: bytes | None
    formats: dict[str, Range] = field(default_factory=dict)
    protocol: Range = PROTOCOL
    contacts: Contacts = field(default_factory=Contacts)
    group: int = 0
    level: int = FOUNDED

    @property
    def form(self) -> int:
        """The form of a hello for a peer that has not sent its own hello yet: every member at this level can read it. 1
        is short, 2 long.
        """
        return 2 if has(self.level, "hello-group") else 1

    def shared(self, other: Hello) -> int:
        """The newest protocol that both nodes know, which they use on their connection."""
        return min(self.protocol[1], other.protocol[1])

    def encode(self, form: int = 1) -> list[bytes]:
        """The hello as a frame. From `form` 2 on it has the eleventh field."""
        formats = {name: list(span) for name, span in sorted(self.formats.items())}
        members = [[contact.id, contact.raft, contact.http] for contact in self.contacts.members]
        who = [self.cluster_id, self.node_id, self.to, self.store_id]
        more = [{"group": self.group, "level": self.level}] if form >= 2 else []
        return encode_frame([HELLO, *self.protocol, *who, formats, self.contacts.index, members, *more])


@dataclass(frozen=True)
class Refusal:
    """The reason why a connection was not accepted: `reason` is a code for programs, `detail` a sentence for people.

    `formats` are the formats that the refusing node reads, as in a hello. A node that waits to be added refuses every
    node, and tells its formats in that refusal. The detail is sent to the other node and shown on the status page, so
    it names no cluster. `note` may name it, because only this node's own log shows it.
    """

    reason: str
    detail: str
    formats: dict[str, Range] = field(default_factory=dict)
    note: str = field(default="", compare=False)

    def encode(self, form: int = 1) -> list[bytes]:
        """The refusal as a frame. From `form` 2 on it has the formats."""
        more = [{name: list(span) for name, span in sorted(self.formats.items())}] if form >= 2 else []
        return encode_frame([REFUSAL, self.reason, self.detail[:200], *more])


class HelloRefused(FrameRefused):
    """This build cannot read the hello. `refusal` is the answer to it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def decode_greeting(meta: bytes) -> Hello | Refusal:
    """Decode the first frame of a connection.

    Raises FrameRefused if it is no hello and no refusal, HelloRefused if it is a hello of a newer build.
    """
    fields = unpack_meta(meta)
    if len(fields) in (3, 4) and fields[0] == REFUSAL and all(type(text) is str for text in fields[1:3]):
        formats = _formats(fields[3]) if len(fields) == 4 else {}
        return Refusal(_printable(fields[1]), _printable(fields[2]), formats)
    if len(fields) < _FIELDS or fields[0] != HELLO:
        raise FrameRefused("the first frame is not a hello")
    if len(fields) > _FIELDS + 1:
        detail = f"a hello of {len(fields)} fields; this build, of protocol {PROTOCOL[1]}, reads {_FIELDS + 1}"
        raise HelloRefused(Refusal("protocol", f"{detail}: upgrade it"))
    _kind, oldest, newest, cluster_id, node_id, to, store_id, formats, index, members = fields[:_FIELDS]
    if not (_is_range((oldest, newest)) and type(node_id) is str and type(to) is str and type(store_id) is bytes):
        raise FrameRefused("hello with a field of the wrong type")
    if not (is_node_id(node_id) and is_node_id(to) and 1 <= len(store_id) <= STORE_ID_MAX):
        raise FrameRefused("hello with a name that is none")
    if not (cluster_id is None or (type(cluster_id) is bytes and len(cluster_id) == 16)):
        raise FrameRefused("hello with a field of the wrong type")
    more = fields[_FIELDS] if len(fields) > _FIELDS else {}
    group, level = _more(more)
    who = (node_id, to, store_id, cluster_id)
    return Hello(*who, _formats(formats), (oldest, newest), _contacts(index, members), group, level)


def _formats(formats: Any) -> dict[str, Range]:
    if type(formats) is not dict:
        raise FrameRefused("a greeting with a field of the wrong type")
    if not all(type(name) is str and type(span) is list and _is_range(span) for name, span in formats.items()):
        raise FrameRefused("a greeting with a format range that is none")
    return {name: (span[0], span[1]) for name, span in formats.items()}


def _more(more: Any) -> tuple[int, int]:
    """Group and level out of the map in a long hello. Other items of the map, from a newer build, are ignored."""
    if type(more) is not dict:
        raise FrameRefused("hello with a field of the wrong type")
    group, level = more.get("group", 0), more.get("level", FOUNDED)
    if type(group) is not int or not 0 <= group < _GROUPS or type(level) is not int or not 1 <= level < 1 << 8:
        raise FrameRefused("hello with a group or a level that is none")
    return group, level


def _printable(text: str) -> str:
    """The text, with `?` for each character that is not printable. The text is shown and logged, so it must not begin a
    new line.
    """
    return "".join(each if each.isprintable() else "?" for each in text)


def in_own_words(said: Refusal, peer: str) -> Refusal:
    """The refusal of `peer` in a form that may be shown. An older build names the cluster in its detail. Such a detail
    becomes the note, and a new detail names no cluster.
    """
    if said.reason != OTHER_CLUSTER:
        return said
    return Refusal(OTHER_CLUSTER, f"{peer} says that it belongs to another cluster", note=said.detail)


def _contacts(index: Any, members: Any) -> Contacts:
    if type(index) is not int or not 0 <= index <= INDEX_MAX or type(members) is not list:
        raise FrameRefused("hello with members that are none")
    if len(members) > MEMBERS_MAX:
        raise FrameRefused(f"hello with {len(members)} members; the limit is {MEMBERS_MAX}")
    for fields in members:
        if type(fields) is not list or len(fields) != 3 or any(type(text) is not str for text in fields):
            raise FrameRefused("hello with a member that is none")
        node_id, raft, http = fields
        if not is_node_id(node_id) or not is_address(raft) or not (http == "" or is_address(http)):
            raise FrameRefused(f"hello with a member that has no name or no address: {fields!r:.200}")
    return Contacts(index, tuple(Contact(*fields) for fields in members))


def _is_range(span: Any) -> bool:
    return len(span) == 2 and all(type(end) is int and 0 <= end < 1 << 31 for end in span) and span[0] <= span[1]


def _overlap(ours: Range, theirs: Range) -> bool:
    return ours[0] <= theirs[1] and theirs[0] <= ours[1]


def check(own: Hello, theirs: Hello) -> Refusal | None:
    """Return the reason why the node with the hello `theirs` may not connect to this node, None if it may. `own.to` is
    ignored.
    """
    if not _overlap(own.protocol, theirs.protocol):
        return Refusal("protocol", f"{theirs.node_id} speaks protocol {theirs.protocol}, {own.node_id} {own.protocol}")
    refusal = check_entries(theirs.node_id, theirs.formats, own.level)
    if refusal is None and theirs.level > entries_of(own.formats)[1]:
        refusal = Refusal("format", f"{theirs.node_id} is at level {theirs.level}, {own.node_id} reads {own.formats}")
    if refusal is not None:
        return refusal
    if theirs.group != own.group:
        return Refusal("other-group", f"{theirs.node_id} speaks of group {theirs.group}, {own.node_id} of {own.group}")
    if theirs.to != own.node_id:
        return Refusal("wrong-address", f"{theirs.node_id} looks for {theirs.to}, this is {own.node_id}")
    if own.cluster_id is not None and theirs.cluster_id is not None and own.cluster_id != theirs.cluster_id:
        return Refusal(
            OTHER_CLUSTER,
            f"{theirs.node_id} belongs to another cluster than {own.node_id}",
            note=f"{theirs.node_id} to {theirs.cluster_id.hex()}, {own.node_id} to {own.cluster_id.hex()}",
        )
    refusal = _check_members(own, theirs)
    if refusal is not None:
        return refusal
    for name, ours in sorted(own.formats.items()):
        span = theirs.formats.get(name)
        if span is not None and not _overlap(ours, span):
            return Refusal("format", f"{theirs.node_id} reads {name} {span}, {own.node_id} {ours}")
    return None


def check_entries(node_id: str, formats: dict[str, Range], level: int) -> Refusal | None:
    """Return the reason why a node that reads these formats cannot be a member at this level, None if it can."""
    oldest, newest = entries_of(formats)
    if newest >= level:
        return None
    reads = f"{node_id} reads entries of versions {oldest} to {newest}"
    return Refusal("format", f"{reads}, the cluster is at level {level}: start a newer build there")


def newer(own: Hello, theirs: Hello) -> bool:
    """True if the list of members in the hello `theirs` should replace ours: it is newer, of our cluster, and names
    both nodes.
    """
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
