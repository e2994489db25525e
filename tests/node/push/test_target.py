"""Effective targets."""

import base64

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.port.failure_code import BAD_URL, NO_TARGET
from node.port.push_port import Origin, PushTarget
from node.push.target import BadTarget, Targets, make_target
from storage.tables.topic import Topic

TIMEOUT_MS = 10_000
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()


def test_the_topics_target_is_the_default() -> None:
    """All of it, and the node's timeout where it says none."""
    target = make_target({"target": {"url": "https://a.example/x", "secret": SECRET}}, {}, TIMEOUT_MS)
    assert (str(target.url), target.method, target.timeout_ms) == ("https://a.example/x", "POST", TIMEOUT_MS)
    assert target.origin == Origin("https", "a.example", 443)
    assert target.key == b"k" * 24


def test_a_messages_target_wins_field_by_field() -> None:
    """The URL with the topic's method; headers name by name; the secret is never the message's."""
    topic = {"url": "http://a.example/t", "method": "PUT", "headers": {"X-A": "t", "X-B": "t"}, "timeout_ms": 500}
    own = {"url": "http://a.example/m", "headers": {"x-a": "m"}, "secret": "whsec_bad", "method": None}
    target = make_target({"target": topic}, own, TIMEOUT_MS)
    assert (str(target.url), target.method, target.timeout_ms) == ("http://a.example/m", "PUT", 500)
    assert target.headers == {"x-a": "m", "x-b": "t"}
    assert target.key is None
    assert make_target({"target": topic}, {"timeout_ms": 100, "method": "PATCH"}, TIMEOUT_MS).method == "PATCH"


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://a.example/ok?sig=a%2Fb%2Bc%3d&x=%zz&y=%41", "/ok?sig=a%2Fb%2Bc%3d&x=%zz&y=%41"),
        ("http://a.example/%7Euser/a%2Fb/../c", "/%7Euser/a%2Fb/../c"),
        ("http://a.example?x=1", "/?x=1"),
        ("HTTP://0x7f.1:81", "/"),
        ('http://a.example/\u00e9?q="a"', "/%C3%A9?q=%22a%22"),
        ("http://a.example/x\r\nX-Forged: 1", "/xX-Forged:%201"),
        ("http://a.example/x HTTP/1.1", "/x%20HTTP/1.1"),
    ],
)
def test_path_and_query_go_out_as_they_were_written(url: str, line: str) -> None:
    """A signed query lost its signature when `%2F` was written again as `/`. What may not go out so is escaped."""
    assert make_target({}, {"url": url}, TIMEOUT_MS).start.split(b"\r\n")[0] == f"POST {line} HTTP/1.1".encode()


@pytest.mark.parametrize("url", ["http://b.example/", "https://a.example/", "http://a.example:81/"])
def test_the_topics_headers_do_not_go_to_another_origin(url: str) -> None:
    """They may hold a credential, and whoever schedules chooses the URL. A topic without URL means them for all."""
    settings = {"target": {"url": "http://a.example/", "headers": {"Authorization": "Bearer s"}}}
    assert make_target(settings, {"url": url}, TIMEOUT_MS).headers == {}
    settings["target"].pop("url")
    assert make_target(settings, {"url": url}, TIMEOUT_MS).headers == {"authorization": "Bearer s"}


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("http://127.1/x", "http://127.0.0.1/x"),
        ("http://2130706433:81/", "http://127.0.0.1:81/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://0177.0.0.1/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://127.0.0.1/"),
        ("http://\uff11\uff12\uff17.0.0.1/", "http://127.0.0.1/"),
    ],
)
def test_addresses_are_written_the_usual_way(url: str, written: str) -> None:
    """One notation reaches the guard at the socket, whatever a client makes of the others."""
    assert str(make_target({}, {"url": url}, TIMEOUT_MS).url) == written


@pytest.mark.parametrize(
    "url",
    ["ftp://a.example/", "file:///etc/passwd", "//a.example/", "a.example", "http://", "http:///x", "http://a:99999/",
     "http://a:0/", "http://[::1/", "http://[zz]/", "javascript:1", "http://](/"],
)  # fmt: skip
def test_what_is_no_http_url_is_bad(url: str) -> None:
    """With the reason's code, however it is malformed."""
    with pytest.raises(BadTarget) as bad:
        make_target({}, {"url": url}, TIMEOUT_MS)
    assert bad.value.code == BAD_URL


@given(st.text(max_size=60) | st.text(max_size=40).map(lambda text: "http://" + text))
def test_no_text_makes_anything_but_a_target_or_bad_url(text: str) -> None:
    """Whatever stands in a message."""
    topic = Topic(number=1, namespace="d", name="t", settings={}, revision=1, created_ms=0)
    target = Targets(TIMEOUT_MS).of(topic, msgpack.packb({"url": text or "x"}))
    if isinstance(target, BadTarget):
        assert target.code == BAD_URL
    else:
        assert target.origin.scheme in ("http", "https")


def test_no_target_at_all() -> None:
    """A topic in push mode without one, and a message without one."""
    for settings in ({}, {"target": None}, {"target": {"method": "PUT"}}):
        with pytest.raises(BadTarget) as bad:
            make_target(settings, {}, TIMEOUT_MS)
        assert bad.value.code == NO_TARGET


def test_targets_are_kept_until_the_topic_changes() -> None:
    """The same object for the same revision and own target; a bad one is kept too."""
    targets = Targets(TIMEOUT_MS)
    topic = Topic(
        number=4, namespace="d", name="t", settings={"target": {"url": "http://a/"}}, revision=1, created_ms=0
    )
    first = targets.of(topic, b"")
    assert isinstance(first, PushTarget)
    assert targets.of(topic, b"") is first
    own = msgpack.packb({"url": "http://b/"})
    other = targets.of(topic, own)
    assert isinstance(other, PushTarget)
    assert other.origin.host == "b"
    changed = Topic(number=4, namespace="d", name="t", settings={}, revision=2, created_ms=0)
    assert isinstance(targets.of(changed, b""), BadTarget)
    assert targets.of(changed, b"") is targets.of(changed, b"")
