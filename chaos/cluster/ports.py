"""Ports for processes that start soon: no other caller gets them meanwhile."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import Final

from cli.local.local_nodes import LOOPBACK

#: Our ports, from FIRST to END - 1, lie below those that Linux gives to connections (ip_local_port_range).
FIRST: Final = 12_000
END: Final = 32_000


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """Return `count` ports on which no process listens now.

    A port that the system chose is free again until its process listens. Another connection or test run may get it
    meanwhile: once a test asked the node of another test that way. So all processes of this machine take turns. A file
    has the next port, and thousands of ports lie between a port and its next use.
    """
    found: list[int] = []
    with open(_turn(), "a+b") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        next_port = int(turn.read() or FIRST)
        while len(found) < count:
            if _is_free(next_port, host):
                found.append(next_port)
            next_port = next_port + 1 if next_port + 1 < END else FIRST
        turn.truncate(0)
        turn.write(str(next_port).encode())
    return found


def _turn() -> Path:
    return Path(tempfile.gettempdir()) / f"hourwheel-ports-{os.getuid()}"


def _is_free(port: int, host: str) -> bool:
    with socket.socket() as door:
        try:
            door.bind((host, port))
        except OSError:
            return False
    return True
