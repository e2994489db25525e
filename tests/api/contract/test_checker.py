"""Each field's limits, from both sides of each."""

from collections.abc import Callable
from typing import Any

import pytest

from api.contract.checker import (
    Fault,
    read_base64,
    read_content_type,
    read_count,
    read_deliver_at,
    read_flag,
    read_headers,
    read_key,
    read_lease,
    read_on_conflict,
    read_tags,
    read_topic,
)

_NOW_MS = 1_795_227_020_125

_ACCEPTED: list[tuple[Callable[[Any], Any], Any]] = [
    (read_flag, False),
    (read_topic, "a"),
    (read_topic, "0rders.eu_west-1"),
    (read_topic, "a" * 127),
    (read_tags, ()),
    (read_tags, ("t" * 64,) * 16),
    (read_tags, ("é" * 32, "a b", "||")),
    (read_headers, {}),
    (read_headers, {f"x-{n}": "v" for n in range(32)}),
    (read_headers, {"x": "v" * 4095}),
    (read_headers, {"X-Ünicode".replace("Ü", "u"): "tab\tand ü"}),
    (read_key, "k"),
    (read_key, "é" * 64),
    (read_on_conflict, "reject"),
    (read_on_conflict, "keep"),
    (read_on_conflict, "extend"),
    (read_content_type, "image/png"),
    (read_content_type, "text/plain; charset=utf-8"),
]


@pytest.mark.parametrize(("reader", "value"), _ACCEPTED)
def test_at_the_limit(reader: Callable[[Any], Any], value: Any) -> None:
    """What is just inside a limit comes back as it was."""
    assert reader(value) == value


_REFUSED: list[tuple[Callable[[Any], Any], Any, str]] = [
    (read_flag, "true", "true or false"),
    (read_flag, 1, "true or false"),
    (read_topic, "", "1 to 127"),
    (read_topic, "a" * 128, "1 to 127"),
    (read_topic, "-a", "begins with"),
    (read_topic, "a b", "1 to 127"),
    (read_topic, "ä", "1 to 127"),
    (read_topic, "a\n", "1 to 127"),
    (read_topic, ["a"], "got an array"),
    (read_tags, ["t"] * 17, "at most 16"),
    (read_tags, ["t" * 65], "1 to 64 bytes"),
    (read_tags, ["é" * 33], "1 to 64 bytes"),
    (read_tags, [""], "1 to 64 bytes"),
    (read_tags, ["a\n"], "control"),
    (read_tags, [1], "got a whole number"),
    (read_tags, "t", "array of strings"),
    (read_headers, {f"x-{n}": "v" for n in range(33)}, "at most 32"),
    (read_headers, {"x": "v" * 4096}, "4096 bytes"),
    (read_headers, {"": "v"}, "token"),
    (read_headers, {"a b": "v"}, "token"),
    (read_headers, {"ü": "v"}, "token"),
    (read_headers, {"x": 1}, "expected a string"),
    (read_headers, {"x": "a\r\nb"}, "control"),
    (read_headers, {"X": "1", "x": "2"}, "twice"),
    (read_headers, {"Webhook-Id": "v"}, "set by Hourwheel"),
    (read_headers, {"hourwheel-Topic": "v"}, "set by Hourwheel"),
    (read_headers, {"HOST": "v"}, "connection"),
    (read_headers, {"Transfer-Encoding": "chunked"}, "connection"),
    (read_headers, {"Content-Length": "1"}, "connection"),
    (read_headers, [], "object of strings"),
    (read_key, "", "1 to 128 bytes"),
    (read_key, "é" * 65, "1 to 128 bytes"),
    (read_key, "a\x00", "control"),
    (read_key, 5, "string"),
    (read_on_conflict, "merge", "reject, keep, replace, extend"),
    (read_on_conflict, 1, "one of"),
    (read_content_type, "png", "media type"),
    (read_content_type, "a/b\r\nX: y", "media type"),
    (read_content_type, "a/" + "b" * 127, "128 bytes"),
    (read_content_type, None, "leave the field out"),
]


@pytest.mark.parametrize(("reader", "value", "says"), _REFUSED)
def test_past_the_limit(reader: Callable[[Any], Any], value: Any, says: str) -> None:
    """What is just outside is refused, and the text names the limit."""
    with pytest.raises(Fault, match=says):
        reader(value)


def test_a_fault_inside_a_field_points_there() -> None:
    """The pointer below the field names the item or the header, escaped as RFC 6901 wants."""
    with pytest.raises(Fault) as caught:
        read_tags(["a", "b", 3])
    assert caught.value.below == "/2"
    with pytest.raises(Fault) as caught:
        read_headers({"a/b~c": "v"})
    assert caught.value.below == "/a~1b~0c"


def test_lease_is_one_second_to_twelve_hours() -> None:
    """Both ends are accepted, one step further is not."""
    assert read_lease("1s") == 1000
    assert read_lease("12h") == 43_200_000
    for value in ("999ms", "43201s", 999):
        with pytest.raises(Fault, match="1s to 12h"):
            read_lease(value)


def test_count_has_two_ends() -> None:
    """Whole numbers within the range only; a monstrous one does not flood the message."""
    assert [read_count(1, 1, 10), read_count(10, 1, 10)] == [1, 10]
    for value in (0, 11, -5, 10**400, 1.0, True, "5", None):
        with pytest.raises(Fault) as caught:
            read_count(value, 1, 10)
        assert len(caught.value.detail) < 100


def test_base64_is_strict() -> None:
    """Standard alphabet with padding only: no white space, no url-safe letters; and the limit of bytes holds."""
    assert read_base64("AAEC/w==", 4) == b"\x00\x01\x02\xff"
    assert read_base64("", 4) == b""
    for value in ("AAEC/w", "AAEC_w==", "AAEC /w==", "A", "====", "é", 5):
        with pytest.raises(Fault) as caught:
            read_base64(value, 4)
        assert caught.value.code == "invalid-field"
    with pytest.raises(Fault) as caught:
        read_base64("AAECAwQ=", 4)
    assert caught.value.code == "too-large"


def test_due_time_is_bounded_ahead_only() -> None:
    """Up to max_delay ahead, to the millisecond; any past is accepted; microseconds are recognised."""
    ahead_ms = 1000
    assert read_deliver_at(_NOW_MS + ahead_ms, _NOW_MS, ahead_ms) == _NOW_MS + ahead_ms
    assert read_deliver_at("1969-07-20T20:17:40Z", _NOW_MS, ahead_ms) < 0
    with pytest.raises(Fault, match="max_delay = 1s") as caught:
        read_deliver_at(_NOW_MS + ahead_ms + 1, _NOW_MS, ahead_ms)
    assert caught.value.code == "beyond-max-delay"
    with pytest.raises(Fault, match="microseconds"):
        read_deliver_at(_NOW_MS * 100, _NOW_MS, ahead_ms)


@pytest.mark.parametrize("name", ["Expect", "expect"])
def test_a_header_that_no_push_sends_is_refused(name: str) -> None:
    """Expect was accepted and left out of the push without a word."""
    with pytest.raises(Fault, match="belongs to the connection"):
        read_headers({name: "100-continue"})
