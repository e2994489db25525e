"""The network of a cluster: the addresses of its processes, and the links between them.

Here it is loopback without links, which is enough for most tests. A test that cuts links uses
chaos/live/network/namespaces.py or chaos/live/network/proxy.py.
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
        """Return the nodes with these ids, with ports of their own and folders below `directory`. May be called
        once."""
        ports = free_ports(2 * len(ids))
        return [LocalNode(id, ports[2 * i], ports[2 * i + 1], directory / id) for i, id in enumerate(ids)]

    def started(self, node_id: str, pid: int) -> None:
        """Note that the node has a new process. `Cluster.start` calls this."""

    def prefix(self, node_id: str) -> tuple[str, ...]:
        """Return the words that stand before a node's own command when it is started."""
        return ()
