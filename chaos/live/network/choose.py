"""Finds out by trial what a run can do to this machine's network. The report names everything that is left out.

Namespaces come first, because their packets vanish and are late as on a real network. They may be unavailable: no root,
no network device, no filter in the kernel. Then proxies on loopback stand in, and faults that need more are reported as
not run.
"""

from dataclasses import dataclass
from pathlib import Path

from chaos.cluster.links import Condition
from chaos.cluster.network import ClusterNetwork
from chaos.live.network.namespaces import NetnsNetwork, NetworkRefused
from chaos.live.network.proxy import ProxyNetwork

#: Tried on a link of a test network: all that a condition can ask for.
EVERYTHING = Condition(loss=0.1, duplicate=0.1, low_s=0.01, high_s=0.02, bits_per_s=1e6)


@dataclass(frozen=True)
class Chosen:
    """The network for a run. `why` tells why it is not one of namespaces, "" if it is."""

    cluster_network: ClusterNetwork
    why: str


async def namespaces_refused(directory: Path) -> str:
    """The reason why a network of namespaces cannot be made and changed here. "" if it can."""
    try:
        async with NetnsNetwork() as cluster_network:
            cluster_network.place(["n1", "n2"], directory)
            assert cluster_network.links is not None
            cluster_network.links.put([("n1", "n2")], Condition(cut=True))
            cluster_network.links.put([("n2", "n1")], EVERYTHING)
            cluster_network.links.heal()
    except NetworkRefused as refused:
        return str(refused)
    return ""


async def choose_ground(directory: Path, seed: int) -> Chosen:
    """Return the best network that this machine has. `seed` draws the losses on it. Nothing is written to `directory`:
    only the names of test nodes' folders begin with it."""
    refused = await namespaces_refused(directory)
    return (
        Chosen(ProxyNetwork(seed), f"no network namespaces: {refused}") if refused else Chosen(NetnsNetwork(seed), "")
    )
