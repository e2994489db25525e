"""Where the processes of a cluster stand: which addresses they have, and what lies between them.

This one is loopback with nothing in between, which is what most tests want. Where links between nodes are to be cut,
another stands in for it: chaos/live/network/namespaces.py or chaos/live/network/proxy.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from chaos.cluster.links import Links
from chaos.cluster.local_nodes import LOOPBACK, LocalNode
from chaos.cluster.ports import free_ports


class Ground:
    """Loopback ports. Use as `async with`, around the cluster that is placed on it."""

    name = "loopback"
    host = LOOPBACK
    """The clients' address as nodes see it: receivers of webhooks listen here."""
    network = "127.0.0.0/8"
    """Where they are pushed to, for `[push] allow`."""
    links: Links | None = None
    """What lies between the nodes, if it can be changed."""
    not_run: Mapping[str, str] = {}
    """Kinds of faults that cannot be put on links here, and why."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return

    def place(self, ids: Sequence[str], directory: Path) -> list[LocalNode]:
        """The nodes of these ids, their folders below `directory`; called once."""
        ports = free_ports(2 * len(ids))
        return [LocalNode(id, ports[2 * i], ports[2 * i + 1], directory / id) for i, id in enumerate(ids)]

    def started(self, node_id: str, pid: int) -> None:
        """The node has another process."""

    def prefix(self, node_id: str) -> tuple[str, ...]:
        """The command that a node's own command is put behind."""
        return ()
