"""The first frame of a connection for calls, in both directions.

It names the sender, and how many unanswered calls and bytes the sender accepts from the other node. The connection
comes in at the Raft address. The first number of the frame tells it from a hello of Raft
(replication/wire/handshake.py). An older build closes such a connection. The hello of an older build does not name
calls, so this node does not dial that build for calls.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from node.port.codec import BadFrame, decode, encode
from node.port.group_frames import VERSIONS
from node.port.plain import U16, U32, Count, Plain
from replication.wire.contacts import is_node_id
from replication.wire.handshake import CALLS, OTHER_CLUSTER, UNKNOWN_NODE, Refusal, asks_for_calls, decode_greeting

#: Calls of one node that may be unanswered at a time.
CALLS_MAX: Final = 16_384
#: Bytes of those calls, and likewise of answers on their way. The largest batch fits, and a smaller one beside it.
BYTES_MAX: Final = 32 * 1024 * 1024


class Greeting(Plain, frozen=True):
    """A node names itself, its cluster and group, and in `to` the node that it wants to reach. `oldest` and `newest`
    are the versions of calls that it reads. It keeps `calls_max` calls and `bytes_max` bytes for the other node. Later
    builds add to `more`."""

    kind: Annotated[int, Meta(ge=CALLS, le=CALLS)]
    oldest: U16
    newest: U16
    cluster: Annotated[bytes, Meta(min_length=16, max_length=16)]
    node: str
    to: str
    group: U16
    calls_max: U32 = CALLS_MAX
    bytes_max: Count = BYTES_MAX
    more: dict[str, Any] = msgspec.field(default_factory=dict)


def greet(cluster: bytes, node: str, to: str, group: int) -> Greeting:
    """Return the greeting of this build."""
    return Greeting(CALLS, *VERSIONS, cluster, node, to, group)


def read_greeting(meta: bytes) -> Greeting | Refusal:
    """Read the first frame of the other side: its greeting, or the refusal that it sent instead. Raises FrameRefused,
    BadFrame."""
    if asks_for_calls(meta):
        greeting = decode(Greeting, meta)
        if not (is_node_id(greeting.node) and is_node_id(greeting.to)):
            raise BadFrame("Greeting.node or Greeting.to is no name of a node")
        return greeting
    said = decode_greeting(meta)
    return said if isinstance(said, Refusal) else Refusal("no-calls", f"{said.node_id} speaks of Raft here")


def encode_greeting(greeting: Greeting) -> bytes:
    """Encode the greeting as the meta of a frame."""
    return encode(greeting)


def check(own: Greeting, theirs: Greeting, members: frozenset[str]) -> Refusal | None:
    """Return the reason why calls with the other node are refused. None if it may make calls. `own.to` does not
    count."""
    if own.newest < theirs.oldest or theirs.newest < own.oldest:
        spoken = f"{theirs.oldest} to {theirs.newest}, {own.node} {own.oldest} to {own.newest}"
        return Refusal("protocol", f"{theirs.node} speaks calls of versions {spoken}")
    if theirs.cluster != own.cluster:
        return Refusal(OTHER_CLUSTER, f"{theirs.node} belongs to another cluster than {own.node}")
    if theirs.group != own.group:
        return Refusal("other-group", f"{theirs.node} speaks of group {theirs.group}, {own.node} of {own.group}")
    if theirs.to != own.node:
        return Refusal("wrong-address", f"{theirs.node} looks for {theirs.to}, this is {own.node}")
    if theirs.node not in members or theirs.node == own.node:
        return Refusal(UNKNOWN_NODE, f"{theirs.node} is not a member, as far as {own.node} knows: add it")
    return None
