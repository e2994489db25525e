"""The environment of a group: clocks, chance, the disk, the journal's thread, its peers. Each is made when the group
opens."""

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
    """The part of node/environment.py that groups use. The simulator gives another implementation."""

    def clock(self) -> NodeClock:
        """Wall clock and monotonic clock, and the node clock between them."""

    def disk(self) -> Disk:
        """The disk. All bytes of the group's files go through it."""

    def entropy(self) -> Entropy:
        """The source of chance."""

    def boot(self) -> int:
        """The number of this boot of the computer (node/runtime/boot.py)."""

    def transport(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> Transport:
        """The connections to the Raft peers: `peers` are their addresses by name. This node, which is `identity`,
        listens at `listen`."""

    def writer(self) -> Writer:
        """The writer of the journal."""
