"""The greeting: what is said comes back, and each reason to hang up is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replication.wire.contacts import Contact, Contacts
from replication.wire.frame import PROTOCOL, FrameRefused, encode_frame, unpack_meta
from replication.wire.handshake import HELLO, Hello, HelloRefused, Refusal, check, decode_greeting, newer
from tests.replication.raw_frame import split

MEMBERS = tuple(Contact(name, f"{name}:7500", f"{name}:7400") for name in ("n1", "n2", "n3"))
KNOWN = Contacts(3, MEMBERS, frozenset({"n0"}))
OWN = Hello("n1", "n2", b"s1", b"c" * 16, {"command": (1, 2), "journal": (1, 1)}, contacts=KNOWN)
THEIRS = Hello("n2", "n1", b"s2", b"c" * 16, {"command": (2, 3), "other": (7, 8)})


@pytest.mark.parametrize(
    "said",
    [replace(OWN, contacts=Contacts(3, MEMBERS)), THEIRS, Hello("n1", "n2", b"s", None), Refusal("format", "why")],
)
def test_greetings_come_back(said: Hello | Refusal) -> None:
    """A hello and a refusal are decoded to what was said."""
    meta, _blob, _crc = split(said.encode())
    assert decode_greeting(meta) == said


def test_a_fitting_peer_is_accepted() -> None:
    """Same cluster, or one side that knows none yet; ranges that overlap; formats only one of them knows."""
    assert check(OWN, THEIRS) is None
    assert check(OWN, Hello("n2", "n1", b"s2", None)) is None
    assert check(Hello("n1", "n2", b"s1", None, contacts=Contacts(0, MEMBERS)), THEIRS) is None


@pytest.mark.parametrize(
    ("theirs", "reason", "words"),
    [
        (Hello("n2", "n1", b"s2", b"d" * 16), "other-cluster", "another cluster than n1"),
        (Hello("n4", "n1", b"s2", None), "unknown-node", "n4 is not a member"),
        (Hello("n0", "n1", b"s2", b"c" * 16), "removed", "n0 was removed"),
        (Hello("n4", "n1", b"s2", b"c" * 16, contacts=Contacts(9, MEMBERS)), "unknown-node", "n4 is not"),
        (Hello("n2", "n1", b"s2", None, group=3), "other-group", "n2 speaks of group 3, n1 of 0"),
        (Hello("n4", "n1", b"s2", None, {"entry": (3, 4)}, level=3), "format", "n4 is at level 3, n1 reads"),
        (Hello("n2", "n7", b"s2", None), "wrong-address", "looks for n7"),
        (Hello("n2", "n1", b"s2", None, protocol=(98, 99)), "protocol", r"\(98, 99\)"),
        (Hello("n2", "n1", b"s2", None, {"command": (3, 4)}), "format", r"reads command \(3, 4\), n1 \(1, 2\)"),
    ],
)
def test_each_mismatch_has_its_reason(theirs: Hello, reason: str, words: str) -> None:
    """The refusal names what differs, with both values."""
    refusal = check(OWN, theirs)
    assert refusal is not None
    assert refusal.reason == reason
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(refusal.detail)


@pytest.mark.parametrize(
    "meta",
    [
        [],
        [1, 1],
        [HELLO, 1, 1, None, "n1", "n2", b"s", 0, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {}, -1, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {}, True, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {}, 0, {}],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {}, 0, [["n1", "h:1"]]],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {}, 0, [["n1", "h:1", 5]]],
        [HELLO, 2, 1, None, "n1", "n2", b"s", {}, 0, []],
        [HELLO, "1", 1, None, "n1", "n2", b"s", {}, 0, []],
        [HELLO, 1, 1, None, 5, "n2", b"s", {}, 0, []],
        [HELLO, 1, 1, None, "n1", None, b"s", {}, 0, []],
        [HELLO, 1, 1, None, "n1", "n2", "s", {}, 0, []],
        [HELLO, 1, 1, b"short", "n1", "n2", b"s", {}, 0, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", [], 0, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {"x": [2, 1]}, 0, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {"x": [1, 2, 3]}, 0, []],
        [HELLO, 1, 1, None, "n1", "n2", b"s", {"x": 1}, 0, []],
    ],
)
def test_what_is_no_greeting_is_refused(meta: list[Any]) -> None:
    """A first frame that is neither hello nor refusal, or one with a field of the wrong type, is no greeting."""
    packed, _blob, _crc = split(encode_frame(meta))
    with pytest.raises(FrameRefused):
        decode_greeting(packed)


def test_a_newcomer_is_let_in_by_a_newer_list() -> None:
    """A node that slept through changes hears of members it does not know: by a newer list, of its own cluster, that
    names both. Without the cluster, or from a node that is not on its own list, it is a stranger's word."""
    more = (*MEMBERS, Contact("n4", "n4:7500", "n4:7400"))
    came = Hello("n4", "n1", b"s4", b"c" * 16, contacts=Contacts(9, more))
    assert check(OWN, came) is None
    assert newer(OWN, came)
    fresh = Hello("n1", "n4", b"s1", None, contacts=Contacts(0, MEMBERS))
    assert check(fresh, came) is None
    without = Hello("n4", "n1", b"s4", None, contacts=Contacts(9, more))
    assert check(OWN, without) is not None
    older = Hello("n4", "n1", b"s4", b"c" * 16, contacts=Contacts(2, more))
    assert check(OWN, older) is not None


def test_founders_must_list_the_same_peers() -> None:
    """Two nodes with different lists could both find a majority; once there is a cluster, lists differ by their age."""
    one = Hello("n1", "n2", b"s1", None, contacts=Contacts(0, MEMBERS))
    other = Hello("n2", "n1", b"s2", None, contacts=Contacts(0, MEMBERS[:2]))
    refusal = check(one, other)
    assert refusal is not None
    assert refusal.reason == "other-peers"
    assert "n2 is configured with peers ['n1', 'n2'], n1 with ['n1', 'n2', 'n3']" in refusal.detail
    assert check(one, Hello("n2", "n1", b"s2", b"c" * 16, contacts=Contacts(0, MEMBERS[:2]))) is None


LONG: list[Any] = [HELLO, 1, 2, None, "n1", "n2", b"s", {"entry": [1, 2]}, 0, [], {"group": 0, "level": 2}]


def test_a_hello_is_said_in_the_form_that_the_other_reads() -> None:
    """Ten fields, which every build reads, until the level says that all read the eleventh."""
    for level, form in ((1, 1), (2, 2)):
        hello = replace(OWN, level=level, group=5)
        assert hello.form == form
        meta, _blob, _crc = split(hello.encode(hello.form))
        assert len(unpack_meta(meta)) == 9 + form
        heard = decode_greeting(meta)
        assert isinstance(heard, Hello)
        assert (heard.group, heard.level) == ((0, 1) if form == 1 else (5, 2))
    assert OWN.shared(replace(THEIRS, protocol=(1, 1))) == 1
    assert OWN.shared(replace(THEIRS, protocol=(1, 9))) == PROTOCOL[1]


def test_a_build_that_reads_too_little_is_told_so_before_anything_else() -> None:
    """Also where it is no member yet: an older build was added to a cluster of level 2, for the reason said first was
    that it is unknown, which whoever adds it expects."""
    risen = replace(OWN, level=2, formats={"entry": (1, 2)})
    for formats, reads in (({}, "1 to 1"), ({"entry": (1, 1)}, "1 to 1")):
        for node_id in ("n2", "n9"):
            refusal = check(risen, Hello(node_id, "n1", b"s2", None, dict(formats)))
            assert refusal is not None
            assert refusal.reason == "format"
            assert f"{node_id} reads entries of versions {reads}, the cluster is at level 2" in refusal.detail
    assert check(risen, Hello("n2", "n1", b"s2", None, {"entry": (1, 2)})) is None
    assert check(risen, Hello("n2", "n1", b"s2", None, {"entry": (2, 3)}, level=2)) is None


def test_a_refusal_says_what_the_node_reads_to_who_can_hear_it() -> None:
    """To an older build it has the three fields that it reads."""
    refusal = Refusal("unknown-node", "why", {"entry": (1, 2)})
    assert decode_greeting(split(refusal.encode(2))[0]) == refusal
    assert decode_greeting(split(refusal.encode(1))[0]) == Refusal("unknown-node", "why")


@pytest.mark.parametrize(
    "more",
    [[], 5, None, {"group": -1}, {"group": 4096}, {"group": True}, {"group": "0"}, {"level": 0}, {"level": 256}],
)
def test_a_long_hello_with_another_map_is_refused(more: Any) -> None:
    """Names that this build does not know are a newer one's, and are let be; values that are none are not."""
    meta, _blob, _crc = split(encode_frame([*LONG[:10], more]))
    with pytest.raises(FrameRefused):
        decode_greeting(meta)
    heard = decode_greeting(split(encode_frame([*LONG[:10], {"group": 1, "newer": [1, 2]}]))[0])
    assert isinstance(heard, Hello)
    assert (heard.group, heard.level) == (1, 1)


def test_a_hello_of_a_newer_form_is_answered_by_name() -> None:
    """More fields than this build knows: the refusal says how many, and what it reads itself."""
    said = f"hello of 12 fields; this build, of protocol {PROTOCOL[1]}, reads 11"
    with pytest.raises(HelloRefused, match=said) as caught:
        decode_greeting(split(encode_frame([*LONG, 7]))[0])
    assert caught.value.refusal.reason == "protocol"
