"""Finds the process at the other end of a connection on loopback. No port tells it, but the kernel knows both ends.

The kernel is asked for the one socket with this pair of addresses. It answers over the socket monitoring interface,
which `ss` uses. The answer has the socket's inode, and one process has that inode among its open files. The list of all
sockets in /proc has the inodes too. But reading it takes a tenth of a second on a machine with a few thousand
connections. All traffic between the nodes would wait that long.
"""

import contextlib
import os
import socket
import struct
from typing import Final

NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
NLM_F_REQUEST: Final = 1
HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ASKED: Final = struct.Struct("=BBBxI")  # family, protocol, extensions, states
#: Ports and addresses in network order, no interface, any cookie.
ENDS: Final = struct.Struct("!HH4s12x4s12x4x8s")
ANY_COOKIE: Final = b"\xff" * 8
INODE: Final = struct.Struct("=68xI")


class Callers:
    """Finds the node that opened a connection. `pids` has the pid of each node, by id."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)

    def close(self) -> None:
        """Close the socket to the kernel."""
        self._kernel.close()

    def of(self, accepted: socket.socket) -> str | None:
        """Return the id of the node that opened the connection. None if no node did, or it has closed the connection.
        Raises OSError if the kernel has no socket monitoring interface."""
        inode = self._inode(accepted.getpeername(), accepted.getsockname())
        if not inode:
            return None
        held = f"socket:[{inode}]"
        for node_id, pid in self.pids.items():
            folder = f"/proc/{pid}/fd"
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                for name in os.listdir(folder):
                    with contextlib.suppress(FileNotFoundError):
                        if os.readlink(f"{folder}/{name}") == held:
                            return node_id
        return None

    def _inode(self, end: tuple[str, int], to: tuple[str, int]) -> int:
        """The inode of the socket at `end` that is connected to `to`. 0 if there is none."""
        ends = ENDS.pack(end[1], to[1], socket.inet_aton(end[0]), socket.inet_aton(to[0]), ANY_COOKIE)
        asked = ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends
        self._kernel.send(HEADER.pack(HEADER.size + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + asked)
        answer = self._kernel.recv(8_192)
        _, kind, *_ = HEADER.unpack_from(answer)
        if kind != SOCK_DIAG_BY_FAMILY:
            return 0
        (inode,) = INODE.unpack_from(answer, HEADER.size)
        return int(inode)
