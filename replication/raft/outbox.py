"""What must not leave before its write is on disk waits here (repair R1).

The library answers success, votes and asks for votes before anything is synced: a power cut on three nodes lost 979 of
979 acknowledged commands. A message that says "I have this entry" or "I gave this vote" is therefore kept until the
journal's `durable_seq` has reached what `write_seq` was when the message was made. They leave in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from replication.journal.journal import Journal
from replication.wire.frame import Message

HELD = frozenset(("next_node_idx", "request_vote", "response_vote"))


class Outbox:
    """Messages on their way to the wire. Invariant: the write numbers of those that wait never fall."""

    def __init__(self, journal: Journal, send: Callable[[str, Message], bool]) -> None:
        self._journal = journal
        self._send = send
        self._held: deque[tuple[int, str, Message]] = deque()

    def send(self, peer: str, message: Message) -> None:
        """Send now if nothing it depends on is still unwritten, else when it is."""
        journal = self._journal
        if message["type"] in HELD and (self._held or journal.durable_seq < journal.write_seq):
            self._held.append((journal.write_seq, peer, message))
        else:
            self._send(peer, message)

    def release(self) -> None:
        """Send what has become durable."""
        held, durable = self._held, self._journal.durable_seq
        while held and held[0][0] <= durable:
            _seq, peer, message = held.popleft()
            self._send(peer, message)
