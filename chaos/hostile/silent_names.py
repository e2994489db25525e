"""A network without a name server that answers: nodes get their own resolv.conf and hosts file, in a mount namespace.

The names in `hosts` are resolved at once, by the file. Every other name waits for a server that takes questions and
never answers. Needs root: a mount namespace, and port 53.
"""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from chaos.cluster.network import ClusterNetwork
from cli.local.local_nodes import LOOPBACK, LocalNode

#: An unused address of loopback.
SERVER: Final = "127.53.53.53"
_MOUNT: Final = 'mount --bind "$0" /etc/resolv.conf && mount --bind "$1" /etc/hosts && shift && exec "$@"'


class SilentNames(ClusterNetwork):
    """Loopback where the names `hosts` are this machine, and other names have no answer. Raises PermissionError without
    root."""

    name = "loopback without names"

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = tuple(hosts)
        self._server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def __aenter__(self) -> Self:
        self._server.bind((SERVER, 53))
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    def place(self, ids: Sequence[str], directory: Path) -> list[LocalNode]:
        """Place the nodes as on loopback, with the two files beside them."""
        self._resolv, self._hosts = directory / "resolv.conf", directory / "hosts"
        self._resolv.write_text(f"nameserver {SERVER}\n", encoding="ascii")
        self._hosts.write_text("".join(f"{LOOPBACK} {host}\n" for host in ("localhost", *self.hosts)), encoding="ascii")
        return super().place(ids, directory)

    def prefix(self, node_id: str) -> tuple[str, ...]:
        """Return the command of a shell that mounts the two files, and then runs the node in its own place."""
        return "unshare", "--mount", "sh", "-c", _MOUNT, str(self._resolv), str(self._hosts)
