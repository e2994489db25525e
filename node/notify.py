"""Tells the service manager when the node serves, that its loop turns, and when it ends (systemd's sd_notify).

The protocol is one datagram of NAME=VALUE lines to the socket that NOTIFY_SOCKET names. There is no answer. It is so
small that it needs no library. READY says that the process answers over HTTP, which a node does before there is a
leader. Services that start after it must not wait for a majority, or no cluster would ever start. WATCHDOG comes from
the event loop, so the manager ends a process whose loop hangs, and starts it again. A lost majority is no reason to do
so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping

from api.port.port import Port
from node.environment import Environment, Serving

_BEATS: int = 3
"""WATCHDOG is sent this many times within the manager's limit, so that one late datagram does not end the process."""


class Notifier:
    """Sends notices to the service manager. Without NOTIFY_SOCKET in the environment it sends nothing. An error in
    sending is ignored."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "")
        self.beat_s = int(usec) / 1e6 / _BEATS if self._address and mine and usec.isdecimal() else 0.0
        """How often WATCHDOG is due, seconds. 0: never."""

    def tell(self, *lines: str) -> None:
        """Send these lines as one notice, such as `READY=1`. Never blocks."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)

    async def beat(self, status: Callable[[], str]) -> None:
        """Send WATCHDOG and the text that `status` returns, every `beat_s` seconds, until cancelled."""
        while self.beat_s:
            self.tell("WATCHDOG=1", f"STATUS={status()}")
            await asyncio.sleep(self.beat_s)


class Announced(Environment):
    """The real environment, which also tells the service manager when the HTTP server runs."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def serve(self, port: Port, host: str, listen_port: int) -> Serving:
        """Start the HTTP server, and then send READY=1 to the service manager. Raises
        api.http.listening.ListenFailed."""
        serving = await super().serve(port, host, listen_port)
        self._notifier.tell("READY=1")
        return serving
