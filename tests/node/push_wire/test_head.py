"""The headers of an attempt."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

from node.port.push_port import PushTarget
from node.push.target import make_target
from node.push_wire.head import make_head
from tests.node.push_wire.attempt import work

TIMEOUT_MS = 10_000
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()


def headers_of(target: PushTarget, **fields: Any) -> dict[str, str]:
    """The headers of attempt 3 in term 7, without those of the request itself."""
    asked = {"asked_due_ms": 1_800_000_000_125, "handed_over_ms": 1_800_000_000_999}
    made = work(target, topic="orders", term=7, attempt=3, **asked, **fields)
    head = make_head(made)
    assert head.endswith(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2]]
    headers = dict(lines)
    assert len({name.lower() for name, _ in lines}) == len(lines), "a header twice"
    assert int(headers.pop("Content-Length")) == len(made.body)
    assert headers.pop("Host") == "a"
    if "Accept" not in target.headers and headers["accept"] == "*/*":
        del headers["accept"]
    return headers


def test_headers_are_what_the_contract_says() -> None:
    """Exactly these for a plain JSON message with a secret."""
    target = make_target({"target": {"url": "http://a/", "secret": SECRET}}, {}, TIMEOUT_MS)
    mac = hmac.new(b"k" * 24, b"1ID.1800000000.{}", hashlib.sha256).digest()
    assert headers_of(target) == {
        "user-agent": "hourwheel",
        "content-type": "application/json",
        "webhook-id": "1ID",
        "webhook-timestamp": "1800000000",
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
        "Hourwheel-Topic": "orders",
        "Hourwheel-Due": "2027-01-15T08:00:00.125Z",
        "Hourwheel-Attempt": "3",
        "Hourwheel-Term": "7",
    }


def test_without_a_secret_nothing_is_signed() -> None:
    """The header is not there, rather than empty."""
    assert "webhook-signature" not in headers_of(make_target({}, {"url": "http://a/"}, TIMEOUT_MS))


def test_a_messages_headers_win_over_the_targets() -> None:
    """By name in any case, the type of the body included; ours cannot be replaced."""
    target = make_target({}, {"url": "http://a/", "headers": {"X-A": "t", "Content-Type": "t/t"}}, TIMEOUT_MS)
    assert headers_of(target)["content-type"] == "t/t"
    headers = headers_of(target, headers={"x-A": "m", "content-Type": "m/m", "X-B": "b"})
    assert (headers["x-a"], headers["content-type"], headers["x-b"]) == ("m", "m/m", "b")
    asks = make_target({}, {"url": "http://a/", "headers": {"Accept": "text/plain"}}, TIMEOUT_MS)
    assert headers_of(asks)["accept"] == "text/plain", "B18: two Accept lines"
    plain = make_target({}, {"url": "http://a/"}, TIMEOUT_MS)
    assert headers_of(plain, content_type="text/plain")["content-type"] == "text/plain"


def test_tags_are_a_list_that_can_be_taken_apart() -> None:
    """Commas, percent signs and what is not ASCII are percent-encoded."""
    target = make_target({}, {"url": "http://a/"}, TIMEOUT_MS)
    assert headers_of(target, tags=("eu", "a,b", "50%", "süd"))["Hourwheel-Tags"] == "eu,a%2Cb,50%25,s%C3%BCd"


def test_headers_that_are_not_theirs_are_left_out() -> None:
    """From a topic or a message, whatever let them in: they would forge ours, or the length of the body."""
    theirs = {"Host": "x", "Content-Length": "1", "Expect": "100-continue", "Webhook-Id": "x", "HOURWHEEL-Term": "9"}
    target = make_target({}, {"url": "http://a/", "headers": theirs}, TIMEOUT_MS)
    assert target.headers == {}
    assert headers_of(target, headers=theirs) == headers_of(target)


def test_headers_that_cannot_be_sent() -> None:
    """A line break would forge headers, whoever wrote it."""
    with pytest.raises(ValueError, match="x-own"):
        headers_of(make_target({}, {"url": "http://a/", "headers": {"X-Own": "a\r\nX-Forged: 1"}}, TIMEOUT_MS))
    plain = make_target({}, {"url": "http://a/"}, TIMEOUT_MS)
    for name, value in (("X-Own", "a\nb"), ("X-Own", "a\x00"), ("X Own", "a"), ("X-Own: b\r\nX-Forged", "a")):
        with pytest.raises(ValueError, match="cannot be sent"):
            headers_of(plain, headers={name: value})


def test_credentials_in_a_url_are_sent_as_their_header() -> None:
    """A header that is written out wins over them."""
    target = make_target({}, {"url": "http://me:p%40ss@a/"}, TIMEOUT_MS)
    assert headers_of(target)["authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()
    own = {"url": "http://me@a/", "headers": {"Authorization": "Bearer s"}}
    assert headers_of(make_target({}, own, TIMEOUT_MS))["authorization"] == "Bearer s"
