"""The sockets that clients connect to."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

#: Connections that the kernel keeps until they are accepted.
BACKLOG: Final = 2048
#: Sockets for each address, and so connections accepted each time the loop comes round: uvloop accepts one per socket.
#: With one socket, 500 connections of one client would keep the next client waiting for 500 rounds.
ACCEPTS: Final = 24


class ListenFailed(Exception):
    """The node cannot listen on the address. The text says which and why, for the operator."""


async def listen(make: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> list[asyncio.Server]:
    """Listen on each address of the host, with ACCEPTS sockets each. `make` makes the protocol of each client. Raises
    `ListenFailed` with the reason."""
    loop = asyncio.get_running_loop()
    try:
        opened = await loop.create_server(make, host, port, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "the address is in use; stop the process that listens there or configure another port"
        raise ListenFailed(f"cannot listen for HTTP on {host}:{port}: {reason}") from error
    again = [
        await loop.create_server(make, sock=socket.fromfd(each.fileno(), each.family, each.type), backlog=BACKLOG)
        for each in opened.sockets
        for _ in range(ACCEPTS - 1)
    ]
    return [opened, *again]
