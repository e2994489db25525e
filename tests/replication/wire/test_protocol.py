"""Frames between two builds: a field that came later is sent to who reads it, and has its default from who does not."""

from collections.abc import Iterator
from typing import Any

import pytest

from replication.wire import frame
from replication.wire.frame import PROTOCOL, FrameRefused, Later, decode_message, encode_frame, encode_message, speaks
from replication.wire.frame_bound import MOST
from tests.replication.raw_frame import split

OLD, NEW = PROTOCOL
PING_NUMBER = 12


@pytest.fixture(autouse=True)
def grown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A kind with two later fields, and a kind that came later."""
    later = (Later("wait_ms", int, NEW, 400), Later("sum", bytes, NEW, b""))
    monkeypatch.setattr(frame, "_LATER", {"census_answer": later})
    monkeypatch.setattr(frame, "_KINDS", frame._KINDS | {"newcomer": (99, (("term", int),))})
    monkeypatch.setattr(frame, "_SINCE", {"newcomer": NEW})
    monkeypatch.setitem(MOST, "wait_ms", (1 << 31) - 1)
    frame._kinds.cache_clear()
    yield
    frame._kinds.cache_clear()


ANSWER: dict[str, Any] = {"type": "census_answer", "empty": True, "wait_ms": 7, "sum": b"x" * 16}


def test_a_number_without_a_bound_is_our_own_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that comes later needs its line in the table of bounds."""
    monkeypatch.delitem(MOST, "wait_ms")
    with pytest.raises(AssertionError, match="census_answer: no bound"):
        encode_message(ANSWER, NEW)


def test_each_protocol_has_its_fields() -> None:
    """The same message goes with its new fields to who reads them, and as the older build makes it to who does not."""
    assert decode_message(*split(encode_message(ANSWER, NEW)), NEW) == ANSWER
    older = encode_message(ANSWER, OLD)
    assert b"".join(older) == b"".join(encode_frame([11, True]))
    assert decode_message(*split(older), OLD) == ANSWER | {"wait_ms": 400, "sum": b""}


def test_fields_of_another_protocol_are_refused() -> None:
    """The connection settled it: more fields, or fewer, are no frame of it."""
    with pytest.raises(FrameRefused, match=f"census_answer with 3 fields in protocol {OLD}"):
        decode_message(*split(encode_message(ANSWER, NEW)), OLD)
    with pytest.raises(FrameRefused, match=f"census_answer with 1 fields in protocol {NEW}"):
        decode_message(*split(encode_message(ANSWER, OLD)), NEW)
    for value in (-1, 1 << 63, True, None, "7"):
        with pytest.raises(FrameRefused, match="wait_ms is"):
            decode_message(*split(encode_frame([11, True, value, b""])), NEW)


def test_a_kind_that_came_later_is_not_sent_to_an_older_build() -> None:
    """Nor taken from one."""
    assert speaks(NEW, "newcomer")
    assert not speaks(OLD, "newcomer")
    assert speaks(OLD, "ping")
    with pytest.raises(FrameRefused, match=r"unknown kind of message \[99\] in protocol 1"):
        decode_message(*split(encode_message({"type": "newcomer", "term": 1}, NEW)), OLD)
    with pytest.raises(KeyError):
        encode_message({"type": "newcomer", "term": 1}, OLD)


def test_what_nobody_added_is_the_same_in_both() -> None:
    """Protocol 2 differs from 1 by what stands in the tables, and by nothing else."""
    ping = {"type": "ping"}
    assert encode_message(ping, OLD) == encode_message(ping, NEW) == encode_frame([PING_NUMBER])
