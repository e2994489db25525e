"""The greeting: what is said comes back, and each reason to hang up is found."""

from __future__ import annotations

from typing import Any

import pytest

from replication.frame import FrameRefused, encode_frame
from replication.handshake import HELLO, Hello, Refusal, check, decode_greeting
from tests.replication.raw_frame import split

OWN = Hello("n1", "n2", b"s1", b"c" * 16, {"command": (1, 2), "journal": (1, 1)})
THEIRS = Hello("n2", "n1", b"s2", b"c" * 16, {"command": (2, 3), "other": (7, 8)})
MEMBERS = frozenset(("n2", "n3"))


@pytest.mark.parametrize("said", [OWN, THEIRS, Hello("n1", "n2", b"s", None), Refusal("format", "why")])
def test_greetings_come_back(said: Hello | Refusal) -> None:
    """A hello and a refusal are decoded to what was said."""
    meta, _blob, _crc = split(said.encode())
    assert decode_greeting(meta) == said


def test_a_fitting_peer_is_accepted() -> None:
    """Same cluster, or one side that knows none yet; ranges that overlap; formats only one of them knows."""
    assert check(OWN, THEIRS, MEMBERS) is None
    assert check(OWN, Hello("n2", "n1", b"s2", None), MEMBERS) is None
    assert check(Hello("n1", "n2", b"s1", None), THEIRS, MEMBERS) is None


@pytest.mark.parametrize(
    ("theirs", "reason", "words"),
    [
        (Hello("n2", "n1", b"s2", b"d" * 16), "other-cluster", "64" * 16),
        (Hello("n4", "n1", b"s2", None), "unknown-node", "n4 is not a peer"),
        (Hello("n2", "n7", b"s2", None), "wrong-address", "looks for n7"),
        (Hello("n2", "n1", b"s2", None, protocol=(2, 4)), "protocol", r"\(2, 4\)"),
        (Hello("n2", "n1", b"s2", None, {"command": (3, 4)}), "format", r"reads command \(3, 4\), n1 \(1, 2\)"),
    ],
)
def test_each_mismatch_has_its_reason(theirs: Hello, reason: str, words: str) -> None:
    """The refusal names what differs, with both values."""
    refusal = check(OWN, theirs, MEMBERS)
    assert refusal is not None
    assert refusal.reason == reason
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(refusal.detail)


@pytest.mark.parametrize(
    "meta",
    [
        [],
        [1, 1],
        [HELLO, 1, 1, None, "n1", "n2", b"s"],
        [HELLO, 2, 1, None, "n1", "n2", b"s", {}],
        [HELLO, "1", 1, None, "n1", "n2", b"s", {}],
        [HELLO, 1, 1, None, 5, "n2", b"s", {}],
        [HELLO, 1, 1, None, "n1", None, b"s", {}],
        [HELLO, 1, 1, None, "n1", "n2", "s", {}],
        [HELLO, 1, 1, b"short", "n1", "n2", b"s", {}],
        [HELLO, 1, 1, None, "n1", "n2", b"s", []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {"x": [2, 1]}],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {"x": [1, 2, 3]}],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {"x": 1}],
    ],
)
def test_what_is_no_greeting_is_refused(meta: list[Any]) -> None:
    """A first frame that is neither hello nor refusal, or one with a field of the wrong type, is no greeting."""
    packed, _blob, _crc = split(encode_frame(meta))
    with pytest.raises(FrameRefused):
        decode_greeting(packed)
