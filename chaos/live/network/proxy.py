"""A cluster on loopback whose nodes reach each other through TCP proxies. This needs no root.

Every node has two doors: ports of forwarder.py, one before each of its own ports. The other nodes get the doors'
addresses. Clients use the nodes' own ports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self, cast

from chaos.cluster.links import Condition, Link, Links
from chaos.cluster.network import ClusterNetwork
from chaos.cluster.ports import free_ports
from chaos.live.network.helper import Helper
from cli.local.local_nodes import LocalNode


class ProxyLinks(Links):
    """The links between the nodes of a ProxyNetwork, changed in the forwarder's process."""

    def __init__(self, forwarder: Helper) -> None:
        super().__init__()
        self._forwarder = forwarder

    def apply(self, conditions: dict[Link, Condition]) -> None:
        """See `Links.apply`. The conditions hold when this returns. Raises HelperFailed if the forwarder has ended."""
        self._forwarder.ask({"links": {f"{a}>{b}": asdict(each) for (a, b), each in conditions.items()}})


class ProxyNetwork(ClusterNetwork):
    """Loopback, where nodes reach each other through the forwarder's doors. `seed` draws the losses and the delays."""

    name = "loopback with proxies"
    not_run: Mapping[str, str] = {
        "duplicate": "needs network namespaces: between proxies there are streams, and a stream repeats nothing"
    }

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._forwarder: Helper | None = None

    async def __aenter__(self) -> Self:
        self._forwarder = Helper("chaos.live.network.forwarder", [str(self._seed)])
        self.links = ProxyLinks(self._forwarder)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._forwarder is not None:
            self._forwarder.close()

    def place(self, ids: Sequence[str], directory: Path) -> list[LocalNode]:
        """See `ClusterNetwork.place`. Opens the doors."""
        assert self._forwarder is not None, "use `async with`"
        free = free_ports(2 * len(ids))
        ports = {node_id: (free[2 * number], free[2 * number + 1]) for number, node_id in enumerate(ids)}
        doors = cast(dict[str, tuple[int, int]], self._forwarder.ask({"open": ports}))
        return [
            LocalNode(node_id, *ports[node_id], directory / node_id, doors=(doors[node_id][0], doors[node_id][1]))
            for node_id in ids
        ]

    def started(self, node_id: str, pid: int) -> None:
        """See `ClusterNetwork.started`. Tells the forwarder the pid of the node's process, by which the forwarder finds
        the node's connections."""
        assert self._forwarder is not None, "use `async with`"
        self._forwarder.ask({"pids": {node_id: pid}})
