"""The border between a group and its connections: the group sends through `Wire` and is told by `WireEvents`."""

from typing import Protocol

from replication.wire.frame import Message


class Wire(Protocol):
    """The group sends through this. `send` never blocks. False: the message was not taken, as when the peer is away."""

    def send(self, peer: str, message: Message) -> bool:
        """Take a message for `peer`. It arrives at most once, and in order with the others, or not at all."""

    def connected(self, peer: str) -> bool:
        """True if messages for `peer` have a chance."""


class WireEvents(Protocol):
    """The events that a wire reports to the group."""

    def receive(self, peer: str, message: Message) -> None:
        """Take a message of `peer`. Its kind and fields are checked."""

    def peer_connected(self, peer: str, store_id: bytes) -> None:
        """Take a new connection to or from `peer`, which works on the directory `store_id`."""

    def fail(self, error: BaseException) -> None:
        """Stop the node: the wire itself is broken, by a mistake of ours."""
