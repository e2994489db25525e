"""The addresses that a webhook may be sent to: public ones, and those that `[push] allow` names.

A client that may schedule a message chooses its URL. Without a guard a node would fetch from inside the network what
the client could not reach itself. A check of the name does not help: it may resolve to any address, and to another one
a moment later. So the guard stands where the socket is made. There it sees the real address of the connection.

An IPv6 address that stands for an IPv4 one (mapped, compatible, translated, NAT64, 6to4) is judged as that one. Of all
other IPv6 addresses only global unicast (2000::/3) is public, without its reserved parts.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Networks that are not public, by IANA's special-purpose registries and multicast.
_CLOSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
_OPEN_V6: Final = IPv6Network("2000::/3")
#: Closed parts of the open one: protocol assignments (with Teredo) and documentation. 6to4 is judged before.
_CLOSED_V6: Final = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
#: IPv6 networks whose addresses stand for an IPv4 one, each with the number of bits to the right of it.
_EMBEDDING: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped: the socket connects to the IPv4 address itself
    (IPv6Network("::/96"), 0),  # compatible; :: and ::1 are 0.0.0.0 and 0.0.0.1, which are closed too
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated (SIIT)
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_NUMBERS: Final = re.compile(r"[0-9][0-9a-fA-FxX.]*")

_RECEIVE_BYTES: Final = 32 * 1024

FORBIDDEN_ERRNO: Final = -1
"""The errno of AddressForbidden. The system has no such errno. If several addresses of a name fail alike, only the
number is left of the error."""


class AddressForbidden(OSError):
    """The address may not be pushed to. Nothing was sent, not even a SYN."""

    def __init__(self, address: str) -> None:
        super().__init__(FORBIDDEN_ERRNO, f"{address} may not be pushed to; [push] allow names exceptions")


def literal(host: str) -> Address | None:
    """Return the address that getaddrinfo reads from `host` without asking DNS. None for a name.

    It reads dotted, decimal, octal, hexadecimal, short (127.1), and IPv6 with or without brackets and zone.
    """
    text = host.strip("[]").partition("%")[0]
    if _NUMBERS.fullmatch(text):
        try:
            return IPv4Address(socket.inet_aton(text))
        except OSError:
            return None
    try:
        return ip_address(text)
    except ValueError:
        return None


class Addresses:
    """The addresses that a node may push to. `allow` has networks in CIDR notation; ValueError if one is not."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._allow: tuple[Network, ...] = tuple(ip_network(text) for text in allow)

    def allows(self, host: str) -> bool:
        """True if a push may go to this literal address, in any notation. False for a name."""
        address = literal(host)
        return address is not None and self._allows(address)

    def _allows(self, address: Address) -> bool:
        if any(address in network for network in self._allow):
            return True
        if isinstance(address, IPv4Address):
            return not any(address in network for network in _CLOSED_V4)
        for network, shift in _EMBEDDING:
            if address in network:
                return self._allows(IPv4Address(int(address) >> shift & 0xFFFF_FFFF))
        return address in _OPEN_V6 and not any(address in network for network in _CLOSED_V6)

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Return a socket for one row of getaddrinfo, not yet connected, as aiohttp's connector wants it. Raises
        AddressForbidden.

        The receive buffer is small, because at most 16 KiB of an answer is read. A large buffer could also bring many
        bytes at once, which the event loop would parse without a pause.
        """
        family, kind, protocol, _, address = info
        if not self.allows(address[0]):
            raise AddressForbidden(address[0])
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        return opened
