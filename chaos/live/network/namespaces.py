"""A cluster in network namespaces of this machine: every node has an address, an interface and a cable of its own.

    node n1's namespace      the switch's namespace       this process's namespace
      eth0 198.18.N.11  ---- n1 \\                  / uplink ---- hwN 198.18.N.1
      eth0 198.18.N.12  ---- n2 -- bridge `switch`             (clients, webhook receivers)
                                \\ shaped (tap) -- relay.py

Links are changed at the switch, where a node's packets enter it. A filter there drops packets to an address that the
node is cut off from. It can also redirect them to relay.py, which delays, loses, doubles and throttles. The kernel
drops packets without an answer, as with a pulled cable: connections stay half open, and no end is told. Clients reach
nodes through the same switch, on links of their own.

The namespaces have no names. Small processes hold them, which end with this one, however it ends. Then the interfaces
go too: nothing is left behind.
"""

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Self

from chaos.cluster.links import Condition, Link, Links
from chaos.cluster.network import ClusterNetwork
from chaos.live.network.helper import Helper, HelperFailed
from chaos.live.network.relay import TAP
from cli.local.local_nodes import LocalNode

HTTP_PORT: Final = 7070
RAFT_PORT: Final = 7170
#: Networks 198.18.0.0/24, 198.18.1.0/24, ...: reserved for tests, so no other machine has them.
NETWORKS: Final = 250
#: Return values of packet filters. SHOT drops the packet and UNSPECIFIED lets it pass, if the filter decides by itself.
#: If the filter only matches, UNSPECIFIED is a match and NO is none.
SHOT, UNSPECIFIED, NO = 2, 0xFFFFFFFF, 0


class NetworkRefused(RuntimeError):
    """This machine refuses such a network. The text says which part refused it."""


class Namespace:
    """A network namespace without a name, held by a process that waits for the end of its stdin."""

    def __init__(self) -> None:
        command = ["unshare", "--net", "sh", "-c", "echo && exec cat"]
        try:
            pipe = subprocess.PIPE
            self._holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise NetworkRefused(f"unshare: {error.strerror}") from None
        assert self._holder.stdout is not None
        if not self._holder.stdout.readline():
            _, said = self._holder.communicate()
            raise NetworkRefused(f"unshare --net: {said.decode().strip()}")
        self.pid = self._holder.pid
        self.prefix = ("nsenter", "--target", str(self.pid), "--net")

    def close(self) -> None:
        """End the process that holds the namespace. The namespace is gone when its last process is."""
        self._holder.communicate()


def command(words: Sequence[str], lines: Sequence[str]) -> None:
    """Run a command that reads `lines`. Raises NetworkRefused with its message."""
    try:
        done = subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    except OSError as error:
        raise NetworkRefused(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        raise NetworkRefused(f"{' '.join(words)}: {done.stderr.strip()}")


def matching(addresses: Sequence[str], yes: int, no: int) -> str:
    """A program in the bytecode of packet filters. It returns `yes` for IPv4 frames to one of the addresses, otherwise
    `no`."""
    count = len(addresses)
    steps = ["40 0 0 12", f"21 0 {count + 1} 2048", "32 0 0 30"]
    for place, address in enumerate(addresses):
        steps.append(f"21 {count - place} 0 {int(IPv4Address(address))}")
    steps += [f"6 0 0 {no}", f"6 0 0 {yes}"]
    return f"{len(steps)},{','.join(steps)}"


class SwitchLinks(Links):
    """The links between the nodes of a NetnsNetwork, changed at its switch. `addresses` has the IPv4 address of each
    node."""

    def __init__(self, switch: Namespace, seed: int) -> None:
        super().__init__()
        self.addresses: dict[str, str] = {}
        self._switch = switch
        try:
            self._relay = Helper("chaos.live.network.relay", [str(seed)], switch.prefix)
        except HelperFailed as error:
            raise NetworkRefused(f"a tap device cannot be had: {error}") from None

    def close(self) -> None:
        """End the relay's process."""
        self._relay.close()

    def apply(self, conditions: dict[Link, Condition]) -> None:
        """See `Links.apply`. Raises NetworkRefused if the kernel refuses the filters, HelperFailed if the relay has
        ended."""
        everybody = {(a, b): self.of((a, b)) for a in self.addresses for b in self.addresses if a != b}
        shaped = {link: each for link, each in everybody.items() if each.shaped and not each.cut}
        self._relay.tell({f"{self.addresses[a]}>{self.addresses[b]}": asdict(each) for (a, b), each in shaped.items()})
        lines: list[str] = []
        for source in sorted({source for source, _ in conditions}):
            cut = [self.addresses[b] for (a, b), each in everybody.items() if a == source and each.cut]
            turned = [self.addresses[b] for a, b in shaped if a == source]
            place = f"dev {source} ingress protocol all handle 1"
            drop = f"bpf da bytecode '{matching(cut, SHOT, UNSPECIFIED)}'"
            turn = f"bpf bytecode '{matching(turned, UNSPECIFIED, NO)}' action mirred egress redirect dev {TAP}"
            lines += [f"filter replace {place} prio 1 {drop}", f"filter replace {place} prio 2 {turn}"]
        command([*self._switch.prefix, "tc", "-batch", "-"], lines)


class NetnsNetwork(ClusterNetwork):
    """A cluster's network of namespaces, as drawn at the top of this file. Needs root. `seed` draws the lost packets
    and the delays."""

    name = "network namespaces"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._spaces: dict[str, Namespace] = {}
        self._switch: Namespace | None = None
        self._links: SwitchLinks | None = None
        self._cable: str | None = None
        self._net = ""

    async def __aenter__(self) -> Self:
        """Make the switch and connect this process to it. Raises NetworkRefused where that cannot be done."""
        try:
            self._build()
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._close()

    def _build(self) -> None:
        if os.geteuid() != 0:
            raise NetworkRefused("network namespaces need root")
        self._switch = Namespace()
        self.links = self._links = SwitchLinks(self._switch, self._seed)
        number = self._connect()
        self._net = f"198.18.{number}"
        self.host, self.network = f"{self._net}.1", f"{self._net}.0/24"
        inside = ["link add switch type bridge", "link set dev switch up", "link set dev uplink master switch up"]
        inside += [f"link set dev {TAP} txqueuelen 10000 master switch up"]
        command([*self._switch.prefix, "ip", "-batch", "-"], inside)
        quiet = f"link set dev {TAP} learning off flood off mcast_flood off"
        command([*self._switch.prefix, "bridge", "-batch", "-"], [quiet])
        command(
            ["ip", "-batch", "-"], [f"address add {self.host}/24 dev {self._cable}", f"link set dev {self._cable} up"]
        )

    def _connect(self) -> int:
        """Connect this namespace to the switch, by an interface named `hw` and the network's number. Return that
        number. No other cluster of this machine gets it, because the name of the interface is taken."""
        assert self._switch is not None
        refusal = ""
        for number in range(NETWORKS):
            try:
                command(
                    ["ip", "-batch", "-"], [f"link add hw{number} type veth peer name uplink netns {self._switch.pid}"]
                )
            except NetworkRefused as error:
                refusal = str(error)
                if "File exists" not in refusal:
                    raise
            else:
                self._cable = f"hw{number}"
                return number
        raise NetworkRefused(f"{NETWORKS} networks are in use: {refusal}")

    def _close(self) -> None:
        if self._cable is not None:
            with contextlib.suppress(NetworkRefused):  # it would go with the switch too, but later
                command(["ip", "-batch", "-"], [f"link del {self._cable}"])
        if self._links is not None:
            self._links.close()
        for space in (*self._spaces.values(), *([self._switch] if self._switch else [])):
            space.close()

    def place(self, ids: Sequence[str], directory: Path) -> list[LocalNode]:
        """See `ClusterNetwork.place`. Raises NetworkRefused."""
        assert self._switch is not None, "use `async with`"
        assert self._links is not None
        nodes: list[LocalNode] = []
        at_switch: list[str] = []
        known: list[str] = []
        for number, node_id in enumerate(ids, 11):
            space = self._spaces[node_id] = Namespace()
            address, mac = f"{self._net}.{number}", f"02:00:c6:12:00:{number:02x}"
            known.append(f"fdb replace {mac} dev {node_id} master static")
            self._links.addresses[node_id] = address
            peer = f"peer name eth0 address {mac} netns {space.pid}"
            command([*self._switch.prefix, "ip", "-batch", "-"], [f"link add {node_id} type veth {peer}"])
            at_switch.append(f"link set dev {node_id} master switch up")
            own = ["link set dev lo up", f"address add {address}/24 dev eth0", "link set dev eth0 up"]
            command([*space.prefix, "ip", "-batch", "-"], own)
            nodes.append(LocalNode(node_id, HTTP_PORT, RAFT_PORT, directory / node_id, address))
        command([*self._switch.prefix, "ip", "-batch", "-"], at_switch)
        filters = [f"qdisc add dev {node_id} clsact" for node_id in ids]
        command([*self._switch.prefix, "tc", "-batch", "-"], filters)
        command([*self._switch.prefix, "bridge", "-batch", "-"], known)
        return nodes

    def prefix(self, node_id: str) -> tuple[str, ...]:
        """See `ClusterNetwork.prefix`."""
        return self._spaces[node_id].prefix
