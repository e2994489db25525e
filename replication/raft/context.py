"""The parts that all roles of a Raft group share: the library's core, the wire, the options and the given time."""

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
    """A committed entry with two contents, or two leaders in one term. Both are impossible unless a disk forgot what it
    held.
    """


@dataclass(frozen=True)
class RaftContext:
    """The parts of one node's Raft group, which its roles share. `monotonic` is the only clock."""

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
        """True if the message is of an earlier term than this node's. Then this also tells the sender the present term
        (R8), since a deposed leader may not know of it.
        """
        if message["term"] >= self.core.term:
            return False
        self.wire.send(peer, {"type": "stale_term", "term": self.core.term})
        return True
