"""The line between a group and its connections: what it sends through, and what it is told."""

from typing import Protocol

from replication.wire.frame import Message


class Wire(Protocol):
    """What the group sends through. `send` never blocks; False: it was not taken, as when the peer is away."""

    def send(self, peer: str, message: Message) -> bool:
        """Take a message for `peer`; it arrives at most once, and in order with the others, or not at all."""

    def connected(self, peer: str) -> bool:
        """Whether messages for `peer` have a chance."""


class WireEvents(Protocol):
    """What a wire tells the group."""

    def receive(self, peer: str, message: Message) -> None:
        """A message of `peer`, its kind and fields checked."""

    def peer_connected(self, peer: str, store_id: bytes) -> None:
        """A connection to or from `peer` was made; it works on the directory `store_id`."""

    def fail(self, error: BaseException) -> None:
        """The wire itself is broken, by a mistake of ours: the node has to stop."""
