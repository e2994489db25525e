"""What the parts of one Raft group share: the library's core, the way out, the options and the given time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from replication.agreement import Agreement
from replication.core import Core
from replication.frame import Message
from replication.journal import Journal
from replication.membership import Roster
from replication.options import GroupOptions, Vitals
from replication.outbox import Outbox
from replication.patience import Patience
from replication.promise import Promises
from replication.silence import Silence


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


class Diverged(Exception):
    """Another committed entry, a second leader of a term: what cannot be, unless a disk has forgotten what it held."""


@dataclass(frozen=True)
class Station:
    """One node's place in the group. `monotonic` is the only clock."""

    options: GroupOptions
    roster: Roster
    core: Core
    journal: Journal
    wire: Wire
    outbox: Outbox
    monotonic: Callable[[], float]
    vitals: Callable[[], Vitals]
    agreement: Agreement
    promises: Promises
    silence: Silence
    patience: Patience

    @property
    def peers(self) -> tuple[str, ...]:
        """Sorted ids of all other members, learners too."""
        return self.roster.peers

    def stale(self, peer: str, message: Message) -> bool:
        """Whether the message is of an earlier term. R8: the sender is told; else a deposed leader goes on unaware."""
        if message["term"] >= self.core.term:
            return False
        self.wire.send(peer, {"type": "stale_term", "term": self.core.term})
        return True
