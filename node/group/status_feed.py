"""Tells the fronts of a node a group's status, in the step in which it changes."""

from __future__ import annotations

from collections.abc import Callable

from node.port.group_frames import VERSIONS
from node.port.group_port import GroupStatus, PeerNode
from replication.wire.transport import Transport


class StatusFeed:
    """The status of one group, for the fronts that are attached. `read` returns the present status."""

    def __init__(self, read: Callable[[], GroupStatus]) -> None:
        self._read = read
        self._newest: GroupStatus | None = None
        self._told: list[Callable[[GroupStatus], None]] = []

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """Call `told` with the present status, and again whenever it changes."""
        self._told.append(told)
        told(self._read())

    def tell(self) -> None:
        """Read the status. If it has changed, call the `told` of each attached front with it."""
        status = self._read()
        if status != self._newest:
            self._newest = status
            for told in self._told:
                told(status)


def peers_of(transport: Transport, own: str) -> tuple[PeerNode, ...]:
    """The other members of the cluster. `own` is this node's name. Each has True if it is known to read the calls of
    this build, else False."""

    def reads(peer: str) -> bool:
        versions = transport.reads_calls(peer)
        return versions is not None and versions[0] <= VERSIONS[1] and VERSIONS[0] <= versions[1]

    others = [each for each in transport.contacts.members if each.id != own]
    return tuple(PeerNode(each.id, each.raft, reads(each.id)) for each in others)
