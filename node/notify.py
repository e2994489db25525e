"""Tells the service manager that the node serves, that its loop turns, that it ends (systemd's sd_notify).

The protocol is one datagram of NAME=VALUE lines to the socket that NOTIFY_SOCKET names. There is no answer. It is so
little that it needs no library. READY says that the process answers over HTTP, which a node does before there is a
leader. Units that follow it must not wait for a majority, or no cluster would ever start. WATCHDOG comes from the event
loop, so the manager ends a loop that hangs and starts it again. A lost majority is no reason to do so.
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
"""Beats within the watchdog's time, so that one late beat ends nothing."""


class Notifier:
    """The way to the service manager. There is none if no manager asked. A failure here ends no node."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "")
        self.beat_s = int(usec) / 1e6 / _BEATS if self._address and mine and usec.isdecimal() else 0.0
        """How often WATCHDOG is due, seconds. 0: never."""

    def tell(self, *lines: str) -> None:
        """Send these lines, such as `READY=1`. Never waits."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)

    async def beat(self, status: Callable[[], str]) -> None:
        """Say that the loop turns, and the `status`, as often as it is wanted, until cancelled."""
        while self.beat_s:
            self.tell("WATCHDOG=1", f"STATUS={status()}")
            await asyncio.sleep(self.beat_s)


class Announced(Environment):
    """The real world, with a notifier that is told when the node serves."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def serve(self, port: Port, host: str, listen_port: int) -> Serving:
        """The HTTP server. Raises api.http.listening.ListenFailed."""
        serving = await super().serve(port, host, listen_port)
        self._notifier.tell("READY=1")
        return serving
