"""The shared parts of a Raft group: the library's core, the way out, the options and the given time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replication.election.patience import Patience
from replication.election.silence import Silence
from replication.journal.journal import Journal
from replication.raft.agreement import Agreement
from replication.raft.members import Roster
from replication.raft.options import GroupOptions, NodeReport
from replication.raft.outbox import Outbox
from replication.raft.promise import Promises
from replication.raft.pysyncobj_core import Core
from replication.wire.events import Wire
from replication.wire.frame import Message


class Diverged(Exception):
    """Another committed entry, or a second leader of a term. Both are impossible unless a disk forgot what it held."""


@dataclass(frozen=True)
class RaftContext:
    """The place of a node in the group. `monotonic` is the only clock."""

    options: GroupOptions
    roster: Roster
    core: Core
    journal: Journal
    wire: Wire
    outbox: Outbox
    monotonic: Callable[[], float]
    node_report: Callable[[], NodeReport]
    agreement: Agreement
    promises: Promises
    silence: Silence
    patience: Patience

    @property
    def peers(self) -> tuple[str, ...]:
        """Sorted ids of all other members, learners too."""
        return self.roster.peers

    def stale(self, peer: str, message: Message) -> bool:
        """True if the message is of an earlier term. The sender is told (R8), else a deposed leader goes on unaware."""
        if message["term"] >= self.core.term:
            return False
        self.wire.send(peer, {"type": "stale_term", "term": self.core.term})
        return True
