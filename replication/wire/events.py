"""The border between a group and its connections: the group sends through `Wire` and is told by `WireEvents`."""

from typing import Protocol

from replication.wire.frame import Message


class Wire(Protocol):
    """The group sends its messages through this."""

    def send(self, peer: str, message: Message) -> bool:
        """Take a message for `peer`. Never blocks. False if it was not taken, as when the peer is not connected.

        A message that was taken arrives in order with the others, at most once, or not at all.
        """

    def connected(self, peer: str) -> bool:
        """True if there is a connection over which messages for `peer` can leave."""


class WireEvents(Protocol):
    """Learns of the messages and connections of a Wire. The group implements it."""

    def receive(self, peer: str, message: Message) -> None:
        """Take a message of `peer`. The wire has checked its kind and fields."""

    def peer_connected(self, peer: str, store_id: bytes) -> None:
        """Take a new connection to or from `peer`, which works on the directory `store_id`."""

    def fail(self, error: BaseException) -> None:
        """Stop the node: the wire itself failed because of a mistake in our code."""
