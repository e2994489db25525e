"""What a group meets outside itself: clocks, chance, the disk, its thread, its peers. Each is made when it opens."""

from __future__ import annotations

from typing import Protocol

from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from replication.journal.writer import Writer
from replication.wire.link import Address
from replication.wire.listener import Identity
from replication.wire.transport import Transport
from storage.file.disk import Disk


class GroupEnvironment(Protocol):
    """The part of node/environment.py that groups use."""

    def clock(self) -> NodeClock:
        """Wall clock and monotonic clock, and the node clock between them."""

    def disk(self) -> Disk:
        """Where every byte goes."""

    def entropy(self) -> Entropy:
        """Where chance comes from."""

    def boot(self) -> int:
        """Which run of the machine's kernel this is."""

    def transport(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> Transport:
        """The Raft peers."""

    def writer(self) -> Writer:
        """What writes the journal."""
