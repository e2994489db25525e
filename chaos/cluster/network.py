"""The ground of a cluster: the addresses of its processes, and the links between them.

This ground is loopback without links, for most tests. A test that cuts links uses chaos/live/network/namespaces.py or
chaos/live/network/proxy.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from chaos.cluster.links import Links
from chaos.cluster.ports import free_ports
from cli.local.local_nodes import LOOPBACK, LocalNode


class ClusterNetwork:
    """Loopback ports. Use as `async with`, around the cluster that is placed on it."""

    name = "loopback"
    host = LOOPBACK
    """The clients' address for nodes: receivers of webhooks listen here."""
    network = "127.0.0.0/8"
    """The network of the receivers, for `[push] allow`."""
    links: Links | None = None
    """The links between the nodes, if they can be changed."""
    not_run: Mapping[str, str] = {}
    """Kinds of faults that links here cannot have, with the reason."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return

    def place(self, ids: Sequence[str], directory: Path) -> list[LocalNode]:
        """The nodes of these ids, their folders below `directory`. Called once."""
        ports = free_ports(2 * len(ids))
        return [LocalNode(id, ports[2 * i], ports[2 * i + 1], directory / id) for i, id in enumerate(ids)]

    def started(self, node_id: str, pid: int) -> None:
        """The node has a new process."""

    def prefix(self, node_id: str) -> tuple[str, ...]:
        """The command in front of a node's own command."""
        return ()
