"""Accepts connections and survives a shortage of file descriptors: it calls `accept` itself, and tries again a moment
later.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from replication.wire.link import Address, log

RETRY_S: Final = 0.1
#: Connections accepted in one turn of the loop.
AT_ONCE: Final = 16
_SHORTAGE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Listens on the address `listen`. Hands each accepted connection to `accepted`, as a socket that does not
    block.
    """

    def __init__(self, listen: Address, accepted: Callable[[socket.socket], None]) -> None:
        self._listen, self._accepted = listen, accepted
        self._socket: socket.socket | None = None
        self._retry: asyncio.TimerHandle | None = None

    @property
    def address(self) -> Address:
        """The address on which it listens. If port 0 was asked for, the port is the one that the system chose."""
        assert self._socket is not None, "not started"
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def listens(self) -> bool:
        """True if it listens, so that connections can be made."""
        return self._socket is not None

    def start(self) -> None:
        """Listen. Raises OSError if the address is not available (in use, not of this machine)."""
        family = socket.AF_INET6 if ":" in self._listen[0] else socket.AF_INET
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.setblocking(False)
            server.bind(self._listen)
            server.listen(64)
        except BaseException:
            server.close()
            raise
        self._socket = server
        self._read()

    def close(self) -> None:
        """Stop listening."""
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        for _ in range(AT_ONCE):
            try:
                accepted, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGE:
                    raise
                log.warning("cannot accept a connection: %s; trying again", error)
                loop.remove_reader(self._socket.fileno())
                self._retry = loop.call_later(RETRY_S, self._read)
                return
            accepted.setblocking(False)
            self._accepted(accepted)
