"""Holds messages back until the journal writes that they depend on are on disk (repair R1).

The library answers success, votes and asks for votes before anything is synced. A power cut on three nodes lost 979 of
979 acknowledged commands. So a message that says "I have this entry" or "I gave this vote" waits. The journal had a
`write_seq` when the message was made. The message leaves when `durable_seq` reaches that number. Messages leave in
order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from replication.journal.journal import Journal
from replication.wire.frame import Message

HELD = frozenset(("next_node_idx", "request_vote", "response_vote"))


class Outbox:
    """The messages that wait for the disk. Invariant: their write numbers never fall from one to the next."""

    def __init__(self, journal: Journal, send: Callable[[str, Message], bool]) -> None:
        self._journal = journal
        self._send = send
        self._held: deque[tuple[int, str, Message]] = deque()

    def send(self, peer: str, message: Message) -> None:
        """Send the message now, or as soon as the writes that it depends on are durable."""
        journal = self._journal
        if message["type"] in HELD and (self._held or journal.durable_seq < journal.write_seq):
            self._held.append((journal.write_seq, peer, message))
        else:
            self._send(peer, message)

    def release(self) -> None:
        """Send the messages whose writes have become durable."""
        held, durable = self._held, self._journal.durable_seq
        while held and held[0][0] <= durable:
            _seq, peer, message = held.popleft()
            self._send(peer, message)
