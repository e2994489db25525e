"""Which addresses may be pushed to: the notation never matters, and what stands for a closed address is closed."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.address_guard import FORBIDDEN_ERRNO, Addresses, AddressForbidden, literal

LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.0.0.1", "0177.0.0.1", "017700000001",
    "::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1", "2002:7f00:1::", "2002:7f00:1::5",
]  # fmt: skip
CLOSED = [
    "0.0.0.0", "0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255",
    "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fdff::1", "ff02::1",
    "fec0::1", "2001:db8::1", "2001::1", "3fff::1", "100::1", "64:ff9b:1::1", "5f00::1", "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe", "2002:c0a8:101::1", "::ffff:0:169.254.169.254",
]  # fmt: skip
OPEN = [
    "8.8.8.8", "0x08080808", "134744072", "1.1", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
    "192.0.1.1", "223.255.255.255", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK + CLOSED)
def test_closed_addresses_are_refused_in_every_notation(host: str) -> None:
    """Loopback, private, link-local, multicast, reserved, and IPv6 addresses that stand for one of them."""
    assert not Addresses().allows(host)


@pytest.mark.parametrize("host", OPEN)
def test_public_addresses_are_allowed(host: str) -> None:
    """The neighbours of closed networks too."""
    assert Addresses().allows(host)


@pytest.mark.parametrize("host", LOOPBACK)
def test_an_exception_holds_for_every_notation(host: str) -> None:
    """127.0.0.0/8 and ::1 in `[push] allow`, as `hourwheel dev` has them."""
    assert Addresses(["127.0.0.0/8", "::1/128"]).allows(host)


def test_an_exception_opens_nothing_else() -> None:
    """The rest of the private networks stays closed; a family's exception is not the other's."""
    allowed = Addresses(["10.0.0.0/8"])
    assert allowed.allows("10.255.0.1")
    assert not any(allowed.allows(host) for host in ("11.0.0.1x", "172.16.0.1", "127.0.0.1", "::1", "fd00::1"))


@pytest.mark.parametrize(
    "host", ["localhost", "example.com", "", "127.0.0.1.", "127.0.0.1 x", "1.2.3.4.5", "0x", "::g"]
)
def test_a_name_is_no_address(host: str) -> None:
    """What getaddrinfo would look up is judged by what it resolves to, at the socket."""
    assert literal(host) is None
    assert not Addresses(["0.0.0.0/0", "::/0"]).allows(host)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["%d", "0x%x", "0%o"]))
def test_numbers_are_read_as_getaddrinfo_reads_them(value: int, notation: str) -> None:
    """One number stands for the whole address, in three bases."""
    text = notation % value if value or notation != "0%o" else "00"
    found = socket.getaddrinfo(text, 80, family=socket.AF_INET, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    assert str(literal(text)) == found[0][4][0]


@given(st.integers(0, 2**128 - 1))
def test_an_address_that_embeds_is_as_open_as_what_it_embeds(value: int) -> None:
    """Mapped, NAT64 and 6to4 forms of any IPv4 address get its verdict."""
    inner = IPv4Address(value & 0xFFFF_FFFF)
    addresses = Addresses()
    verdict = addresses.allows(str(inner))
    for prefix in ("::ffff:0:0/96", "64:ff9b::/96"):
        outer = IPv6Address(int(ip_network(prefix).network_address) | int(inner))
        assert addresses.allows(str(outer)) is verdict
    assert addresses.allows(str(IPv6Address(0x2002 << 112 | int(inner) << 80 | value >> 96))) is verdict


def test_the_socket_is_refused_before_it_is_made() -> None:
    """What the resolver gave is judged; the error keeps its number, all that survives where several addresses fail."""
    with pytest.raises(AddressForbidden, match=r"127\.0\.0\.1 may not be pushed to") as refused:
        Addresses().open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))
    assert refused.value.errno == FORBIDDEN_ERRNO
    Addresses(["127.0.0.0/8"]).open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))).close()
