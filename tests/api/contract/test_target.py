"""Where a webhook may go: addresses in every notation, and all else that a target may hold."""

import base64
import socket
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.contract.checker import Fault
from api.contract.target import _address_in, read_message_target, read_topic_target, read_url
from api.port.message import Target
from api.port.port import Limits
from tests.examples import examples

_ANY = Limits()
_PUBLIC = Limits(push_allow=())
_SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com/",
        "HTTPS://EXAMPLE.com:8443/a/b;c?d=e&f=%20",
        "http://example.com:1/",
        "http://example.com:65535/",
        "http://example.com./hook",
        "http://a_b.internal/hook",
        "http://xn--bcher-kva.example/",
        "http://bücher.example/straße?q=ü",
        "http://bücher。example/",
        "http://example.com?q=http://127.0.0.1/",
        "http://example.com/@127.0.0.1/",
        "http://8.8.8.8/",
        "http://134744072/",
        "http://0x08.0x08.010.8:80/x",
        "http://[2606:4700::1111]/",
        "http://[2606:4700::1111]:8080/",
        "http://[::ffff:8.8.8.8]/",
        "http://1password.example/",
        "http://127.0.0.1.nip.io/",
        "http://deadbeef/",
        "http://0xyz/",
        "http://localhost.example.com/",
        "http://notlocalhost/",
        "http://e/" + "x" * 2039,
        "http://" + ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61]) + "/",
    ],
)
def test_what_may_be_pushed_to(url: str) -> None:
    """Public addresses and names pass, unchanged; looks alone refuse nothing."""
    assert read_url(url, _PUBLIC) == url


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.0x0.0X00.0x01", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("000000177.1", "127.0.0.1"),
        ("127.65535", "127.0.255.255"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("0.0.0.0", "0.0.0.0"),
        ("10.1", "10.0.0.1"),
        ("192.168.257", "192.168.1.1"),
        ("169.254.169.254", "169.254.169.254"),
        ("0xA9FEA9FE", "169.254.169.254"),
        ("2852039166", "169.254.169.254"),
        ("172.16.0.1", "172.16.0.1"),
        ("4294967295", "255.255.255.255"),
        ("\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
        ("127\u30020\uff0e0\uff611", "127.0.0.1"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[0000::0001]", "::1"),
        ("[::]", "::"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("[0:0:0:0:0:ffff:0a00:0001]", "10.0.0.1"),
        ("[fe80::1]", "fe80::1"),
        ("[FD00::AB]", "fd00::ab"),
        ("localhost", "127.0.0.1"),
        ("LocalHost.", "127.0.0.1"),
        ("a.b.localhost", "127.0.0.1"),
        ("\uff4cocalhost", "127.0.0.1"),
    ],
)
def test_addresses_in_every_notation(host: str, address: str) -> None:
    """Each is refused in its canonical form, with the way out, and taken where that is allowed."""
    for url in (f"http://{host}/", f"https://{host}:8443/x?y", f"http://{host}"):
        with pytest.raises(Fault) as caught:
            read_url(url, _PUBLIC)
        assert caught.value.code == "invalid-field"
        assert address in caught.value.detail
        assert "[push] allow" in caught.value.detail
        assert read_url(url, Limits(push_allow=(address,))) == url
        assert read_url(url, _ANY) == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "1 to 2048 bytes"),
        ("http://e/" + "x" * 2040, "2048 bytes, got 2049"),
        ("http://e/" + "é" * 1020, "2048 bytes, got 2049"),
        ("example.com/hook", "absolute"),
        ("//example.com/", "absolute"),
        ("http:/example.com/", "absolute"),
        ("http:example.com", "absolute"),
        ("ftp://example.com/", 'got "ftp"'),
        ("file:///etc/passwd", 'got "file"'),
        ("javascript://x/%0aalert(1)", 'got "javascript"'),
        ("unix:///run/x", 'got "unix"'),
        ("http://", "no host"),
        ("http:///path", "no host"),
        ("http://:80/", "no host"),
        ("http://user@example.com/", "no user name"),
        ("http://user:pw@example.com/", "no user name"),
        ("http://example.com@127.0.0.1/", "no user name"),
        ("http://@example.com/", "no user name"),
        ("http://example.com/#x", "no fragment"),
        ("http://example.com#", "no fragment"),
        ("http://example.com:0/", "1 to 65535"),
        ("http://example.com:65536/", "1 to 65535"),
        ("http://example.com:/", "1 to 65535"),
        ("http://example.com:99999999999999999999/", "1 to 65535"),
        ("http://example.com:8a/", "port of digits"),
        ("http://example.com:\uff18/", "port of digits"),
        ("http://::1/", "in brackets"),
        ("http://[::1/", "in brackets"),
        ("http://[::1]x/", "in brackets"),
        ("http://[127.0.0.1]/", "no IPv6 address"),
        ("http://[::1::]/", "no IPv6 address"),
        ("http://[]/", "no IPv6 address"),
        ("http://[v1.x]/", "no IPv6 address"),
        ("http://[fe80::1%eth0]/", "zone id"),
        ("http://[fe80::1%25eth0]/", "zone id"),
        ("http://256.0.0.1/", "no IPv4 address"),
        ("http://1.2.3.4.5/", "no IPv4 address"),
        ("http://127.0.0.256/", "no IPv4 address"),
        ("http://127.16777216/", "no IPv4 address"),
        ("http://4294967296/", "no IPv4 address"),
        ("http://0x100000000/", "no IPv4 address"),
        ("http://08.0.0.1/", "no IPv4 address"),
        ("http://127.0..1/", "labels"),
        ("http://.127.0.0.1/", "labels"),
        ("http://example.123/", "no IPv4 address"),
        ("http://" + "9" * 400 + "/", "labels"),
        ("http://" + "9" * 60 + "/", "no IPv4 address"),
        ("http://exa mple.com/", "white space"),
        (" http://example.com/", "white space"),
        ("http://example.com/\n", "white space"),
        ("http://example.com/\r\nX-A: b", "white space"),
        ("http://example.com/\x00", "control characters"),
        ("http://example.com/\x7f", "control characters"),
        ("http://example.com/\u00a0", "white space"),
        ("http://example.com/\u2028", "white space"),
        ("http://example.com/\u3000", "white space"),
        ("http://example.com\\@127.0.0.1/", "backslashes"),
        ("http://127%2e0.0.1/", "labels"),
        ("http://%31%32%37.0.0.1/", "labels"),
        ("http://a..b/", "labels"),
        ("http://.a/", "labels"),
        ("http://a../", "labels"),
        ("http://./", "labels"),
        ("http://" + "a" * 64 + ".com/", "labels"),
        ("http://" + ".".join(["a" * 60] * 5) + "/", "labels"),
        ("http://exam!ple.com/", "labels"),
        ("http://example.com,127.0.0.1/", "labels"),
        ("http://" + "ü" * 70 + ".com/", "IDNA"),
        ("http://ü..com/", "IDNA"),
        (5, "expected a string"),
        (None, "expected a string"),
    ],
)
def test_what_is_no_url_to_push_to(url: Any, says: str) -> None:
    """Two readings, other schemes, broken hosts and ports: refused with what is wrong, allowed addresses or not."""
    for limits in (_ANY, _PUBLIC):
        with pytest.raises(Fault, match=says.replace("(", "\\(")):
            read_url(url, limits)


@given(st.integers(0, 2**32 - 1), st.data())
def test_any_notation_of_an_address_is_that_address(value: int, data: st.DataObject) -> None:
    """inet_aton's grammar: one to four numbers of any base, the last filling the rest."""
    count = data.draw(st.integers(1, 4))
    numbers = [value >> (24 - 8 * place) & 255 for place in range(count - 1)]
    numbers.append(value & (256 ** (5 - count) - 1))
    written = []
    for number in numbers:
        written.append(data.draw(st.sampled_from([f"{number}", f"0{number:o}", f"{number:#x}", f"0X{number:08X}"])))
    url = f"http://{'.'.join(written)}/"
    assert read_url(url, Limits(push_allow=(str(ip_address(value)),))) == url


@examples(1000)
@given(st.text(alphabet="0123456789abcfxX.", min_size=1, max_size=14))
def test_whatever_the_system_reads_as_an_address_is_one(host: str) -> None:
    """What the C library would connect to without asking DNS is never taken for a name, nor for another address."""
    try:
        meant = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        meant = ""
    with suppress(Fault):
        read_url(f"http://{host}/", Limits(push_allow=("0.0.0.0/0",)))
        assert not meant or _address_in(f"http://{host}/") == (meant,)


@given(st.text(max_size=30), st.sampled_from(["", "http://", "https://[", "http://127."]))
def test_any_text_is_a_url_or_a_refusal(text: str, start: str) -> None:
    """Fuzz: no text gets another exception, and what is taken is given back unchanged."""
    found = start + text
    try:
        found = read_url(start + text, _PUBLIC)
    except Fault as fault:
        found = fault.code
    assert found in (start + text, "invalid-field")


def test_a_message_target() -> None:
    """Each field converted; what is left out is the default's or the topic's."""
    assert read_message_target({"url": "http://e/"}, _ANY) == Target(url="http://e/")
    sent = {"url": "http://e/", "method": "PUT", "headers": {"X-A": "b"}, "timeout": "2s"}
    assert read_message_target(sent, _ANY) == Target(
        url="http://e/", method="PUT", headers={"X-A": "b"}, timeout_ms=2_000
    )


def _faults(value: Any, *, topic: bool = False, whole: bool = True) -> list[tuple[str, str, str]]:
    read = partial(read_topic_target, whole=whole) if topic else read_message_target
    with pytest.raises(Fault) as caught:
        read(value, _PUBLIC)
    return [(each.code, each.below, each.detail) for each in (caught.value, *caught.value.also)]


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({}, "invalid-field", "/url", "required"),
        ({"url": "http://127.1/"}, "invalid-field", "/url", "[push] allow"),
        ({"url": "http://e/", "method": "GET"}, "invalid-field", "/method", "POST, PUT, PATCH"),
        ({"url": "http://e/", "method": "post"}, "invalid-field", "/method", "POST, PUT, PATCH"),
        ({"url": "http://e/", "method": 1}, "invalid-field", "/method", "one of POST, PUT, PATCH"),
        ({"url": "http://e/", "headers": {"Host": "x"}}, "invalid-field", "/headers/Host", "connection"),
        ({"url": "http://e/", "headers": {"webhook-id": "x"}}, "invalid-field", "/headers/webhook-id", "Hourwheel"),
        ({"url": "http://e/", "headers": {"X": "a\r\nb"}}, "invalid-field", "/headers/X", "control"),
        ({"url": "http://e/", "headers": []}, "invalid-field", "/headers", "object of strings"),
        ({"url": "http://e/", "timeout": "99ms"}, "invalid-field", "/timeout", "100ms to 5m"),
        ({"url": "http://e/", "timeout": "301s"}, "invalid-field", "/timeout", "100ms to 5m"),
        ({"url": "http://e/", "timeout": "soon"}, "invalid-field", "/timeout", '"10s"'),
        ({"url": "http://e/", "timeouts": "1s"}, "unknown-field", "/timeouts", 'did you mean "timeout"?'),
        ({"url": "http://e/", "secret_set": True}, "unknown-field", "/secret_set", "read-only"),
        ("http://e/", "invalid-field", "", "expected an object, got a string"),
        (None, "invalid-field", "", "expected an object, got null"),
    ],
)
def test_bad_targets(sent: Any, code: str, pointer: str, says: str) -> None:
    """A message's and a topic's target refuse the same, each fault at its place."""
    for topic in (False, True):
        ((found_code, found_pointer, detail),) = _faults(sent, topic=topic)
        assert (found_code, found_pointer) == (code, pointer)
        assert says in detail


def test_every_fault_of_a_target_is_told() -> None:
    """Three mistakes, three places."""
    sent = {"url": "ftp://e/", "method": "TRACE", "timeout": 1}
    assert [pointer for _, pointer, _ in _faults(sent)] == ["/url", "/method", "/timeout"]


def test_the_ends_of_the_timeout() -> None:
    """100 ms and 5 minutes are taken."""
    for text, timeout_ms in (("100ms", 100), ("5m", 300_000)):
        assert read_message_target({"url": "http://e/", "timeout": text}, _ANY).timeout_ms == timeout_ms


def test_a_secret_is_a_topic_s() -> None:
    """24 to 64 bytes in Standard Webhooks' notation; a refusal does not repeat it; a message has none."""
    for size in (24, 64):
        secret = "whsec_" + base64.b64encode(bytes(size)).decode()
        assert read_topic_target({"url": "http://e/", "secret": secret}, _ANY, whole=True)["secret"] == secret
    for bad in ("whsec_" + base64.b64encode(bytes(n)).decode() for n in (0, 23, 65)):
        assert "24 to 64 bytes" in _faults({"url": "http://e/", "secret": bad}, topic=True)[0][2]
    for bad in (_SECRET.removeprefix("whsec_"), _SECRET[:-1], "whsec_" + "!" * 32, "whsec_\u00e9", ""):
        ((code, pointer, detail),) = _faults({"url": "http://e/", "secret": bad}, topic=True)
        assert (code, pointer) == ("invalid-field", "/secret")
        assert not bad or bad not in detail
    ((code, pointer, detail),) = _faults({"url": "http://e/", "secret": _SECRET})
    assert (code, pointer) == ("unknown-field", "/secret")
    assert "topic" in detail


def test_what_a_topic_is_given() -> None:
    """Only what was sent, by the port's names; null takes away in a PATCH and is nothing in a PUT."""
    sent = {"url": "http://e/", "timeout": "1s", "headers": None, "method": None, "secret": None}
    assert read_topic_target(sent, _ANY, whole=True) == {"url": "http://e/", "timeout_ms": 1_000}
    nulls = dict.fromkeys(("headers", "method", "secret", "timeout"))
    assert read_topic_target(nulls, _ANY, whole=False) == dict.fromkeys(("headers", "method", "secret", "timeout_ms"))
    assert _faults({"url": None}, topic=True, whole=False)[0][1] == "/url"
