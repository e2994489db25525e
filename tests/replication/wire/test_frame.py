"""Frames: what goes in comes out, in any pieces; whatever else comes in is refused by name."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.wire.frame import (
    FRAME_BYTES_MAX,
    FrameRefused,
    Message,
    decode_message,
    encode_frame,
    encode_message,
)
from replication.wire.frame_bound import MOST, TERM_MAX
from replication.wire.frame_reader import FrameReader
from tests.examples import examples
from tests.replication.raw_frame import split

TERM = st.integers(0, TERM_MAX)
APPEND: Message = {
    "type": "append_entries",
    "term": 3,
    "seq": 9,
    "commit_index": 4,
    "prevLogIdx": 5,
    "prevLogTerm": 2,
    "entries": [(b"first", 6, 2), (b"\x01", 7, 3)],
}
PIECE: Message = {
    "type": "snapshot_piece",
    "term": 1,
    "number": 2,
    "file": 3,
    "offset": 4,
    "known": 9,
    "gone": False,
    "crc": 5,
    "data": b"bytes of a file",
}
MESSAGES: list[Message] = [
    APPEND,
    {"type": "request_vote", "term": 1, "last_log_index": 2, "last_log_term": 0, "transfer": True},
    {"type": "timeout_now", "term": 1},
    {"type": "response_vote", "term": 1},
    {"type": "next_node_idx", "term": 1, "seq": 2, "next_node_idx": 3, "reset": True, "success": False, "voter": True},
    {"type": "pre_vote", "term": 1, "last_log_index": 2, "last_log_term": 0},
    {"type": "pre_vote_ok", "term": 1},
    {"type": "stale_term", "term": 1},
    {
        "type": "heartbeat",
        "term": 1,
        "stamp_us": 2,
        "wall_ms": 7,
        "commit_index": 3,
        "last_index": 4,
        "low_water": 2,
        "released": True,
        "median_ms": 5,
        "durable_index": 3,
        "check_index": 6,
        "agreed_index": 5,
        "agreed_sum": bytes(16),
        "wish_ms": 900,
        "median_slack_ms": 66,
    },
    {"type": "sum_asked", "index": 7},
    {"type": "committed", "index": 7, "entry_term": 3},
    {"type": "sum_told", "index": 7, "sum": b"s" * 16},
    {"type": "sum_told", "index": 7, "sum": b"s" * 17},
    {"type": "sum_told", "index": 7, "sum": b""},
    {"type": "standing", "term": 1, "index": 2, "known_term": 3, "known_index": 4},
    {
        "type": "echo",
        "term": 1,
        "stamp_us": 2,
        "wall_ms": 3,
        "applied_index": 4,
        "free_bytes": 5,
        "low": True,
        "retiring": True,
        "leaving": False,
        "busy": True,
        "voter": False,
        "sum_index": 6,
        "sum": b"s" * 16,
        "silence_ms": 600,
    },
    {"type": "census"},
    {"type": "census_answer", "empty": True},
    {"type": "ping"},
    {"type": "pong"},
    {
        "type": "snapshot_offer",
        "term": 1,
        "number": 2,
        "index": 3,
        "bytes": 4,
        "manifest_bytes": 5,
        "crc": 6,
        "together": True,
    },
    {
        "type": "snapshot_pull",
        "term": 1,
        "number": 2,
        "file": 3,
        "offset": 4,
        "size": 1 << 20,
        "known": 7,
        "crc": (1 << 32) - 1,
    },
    PIECE,
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message["type"]))
def test_every_kind_comes_back(message: Message) -> None:
    """Each kind of message is decoded to what was encoded."""
    assert decode_message(*split(encode_message(message))) == message


def test_bytes_of_version_1() -> None:
    """The bytes of protocol version 1 stay what they are: nodes of two builds must understand each other."""
    frame = b"".join(encode_message(APPEND))
    assert frame == golden()


def golden() -> bytes:
    """The frame of APPEND, built by hand."""
    meta = bytes([0x98, 3, 3, 9, 4, 5, 2, 0x92, 2, 3, 0x92, 5, 1])
    blob = b"first\x01"
    crc = crc32c(meta + blob)
    return struct.pack("<III", 12 + len(meta) + len(blob), len(meta), crc) + meta + blob


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@examples(60)
@given(
    previous=st.integers(0, 1 << 40),
    commands=st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    data=st.data(),
)
def test_entries_come_back(previous: int, commands: list[bytes], data: st.DataObject) -> None:
    """Any commands and terms that never fall arrive unchanged, with consecutive indexes."""
    terms = sorted(data.draw(st.lists(TERM, min_size=len(commands) + 2, max_size=len(commands) + 2)))
    entries = [(command, previous + 1 + n, terms[n + 1]) for n, command in enumerate(commands)]
    message = APPEND | {"term": terms[-1], "prevLogIdx": previous, "prevLogTerm": terms[0], "entries": entries}
    assert decode_message(*split(encode_message(message))) == message


@examples(60)
@given(data=st.data())
def test_a_stream_in_any_pieces(data: st.DataObject) -> None:
    """Frames of any size, cut anywhere, come out whole and in order."""
    sizes = data.draw(st.lists(st.sampled_from([1, 50, 5_000, 300_000, 600_000]), min_size=1, max_size=6))
    messages = [APPEND | {"seq": n + 1, "entries": [(bytes([n]) * size, 6, 2)]} for n, size in enumerate(sizes)]
    stream = b"".join(piece for message in messages for piece in encode_message(message))
    found: list[Message] = []
    reader = FrameReader(lambda meta, blob, crc: found.append(decode_message(meta, blob, crc)), FRAME_BYTES_MAX)
    at = 0
    while at < len(stream):
        space = reader.space()
        step = data.draw(st.sampled_from([1, 11, 12, 13, 1_000, 70_000, 10**6])) if at < 200_000 else 10**6
        piece = stream[at : at + min(step, len(space))]
        space[: len(piece)] = piece
        reader.received(len(piece))
        at += len(piece)
    assert found == messages


@examples(300)
@given(whole=st.sampled_from([APPEND, PIECE]), position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused(whole: Message, position: int, bit: int) -> None:
    """No single flipped bit of a frame passes as a message."""
    frame = bytearray(b"".join(encode_message(whole)))
    frame[position % len(frame)] ^= 1 << bit
    found: list[Message] = []
    reader = FrameReader(lambda meta, blob, crc: found.append(decode_message(meta, blob, crc)), 4096)
    reader.space()[: len(frame)] = frame
    try:
        reader.received(len(frame))
    except FrameRefused:
        return
    assert not found, "a damaged frame was taken for a message"


def test_every_prefix_waits() -> None:
    """A frame cut short is neither a message nor an error: the rest may come."""
    frame = b"".join(encode_message(APPEND))
    for length in range(len(frame)):
        found: list[bytes] = []
        reader = FrameReader(lambda meta, blob, crc, found=found: found.append(meta), 4096)  # type: ignore[misc]
        reader.space()[:length] = frame[:length]
        reader.received(length)
        assert not found


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ([], "unknown kind"),
        ([99], "unknown kind"),
        (["ping"], "unknown kind"),
        ([True], "unknown kind"),
        ([12, 1], "ping with 1 fields"),
        ([2], "response_vote with 0 fields"),
        ([2, -1], "term is -1"),
        ([2, 1 << 63], "term is 9223372036854775808"),
        ([3, 5, 1, 1, 1, 3, [2], [1]], "terms that fall"),
        ([3, 5, 1, 1, 1, 3, [4, 3], [1, 1]], "terms that fall"),
        ([3, 5, 1, 1, 1, 3, [6], [1]], "after its leader's"),
        ([3, 5, 1, 1, 1, 3, [1 << 62], [1]], "after its leader's"),
        ([32, 1, b"short"], "sum is b'short'"),
        ([2, True], "term is True"),
        ([2, 1.0], "term is 1.0"),
        ([2, "1"], "term is '1'"),
        ([11, 1], "empty is 1"),
        ([3, 1, 1, 1, 1, 1, [1], []], "do not match"),
        ([3, 1, 1, 1, 1, 1, 7, 7], "do not match"),
        ([3, 1, 1, 1, 1, 1, [-1], [1]], "a term that is none"),
        ([3, 1, 1, 1, 1, 1, [1], [0]], "do not add up"),
        ([3, 1, 1, 1, 1, 1, [1], [True]], "do not add up"),
        ([3, 1, 1, 1, 1, 1, [1], [5]], "do not add up"),
        ({"a": 2}, "a frame is an array"),
        ([2, msgpack.ExtType(1, b"x")], "limits"),
        ([2, "x" * 300], "limits"),
        ([2, list(range(20_000))], "limits"),
        ([2, {b"x": 1, "y" * 9: 1}], "term is"),
        ([16, 1, 1, 1, 1, (1 << 20) + 1, 0, 0], "size is 1048577"),
        ([16, 1, 1, 1 << 25, 1, 1, 0, 0], "file is 33554432"),
        ([16, 1, 1, 1, 1, 1, 0, 1 << 32], "crc is 4294967296"),
        ([15, 1, 1, 1, 1, (64 << 20) + 1, 1, True], "manifest_bytes is 67108865"),
        ([17, 1, 1, 1, 1, 0, 0, 1], "gone is 0"),
    ],
)
def test_bad_fields_are_refused(meta: Any, words: str) -> None:
    """Whatever does not fit the table is refused with what was wrong."""
    with pytest.raises(FrameRefused, match=words):
        decode_message(*split(encode_frame(meta)))


NUMBERS = [(message, field) for message in MESSAGES for field, value in message.items() if type(value) is int]


@pytest.mark.parametrize(("message", "field"), NUMBERS)
def test_every_number_has_its_bound(message: Message, field: str) -> None:
    """Each number of each kind is taken up to the bound that its table names, and refused by name past it."""
    most, whole = MOST[field], message
    if "entries" in message:
        whole = message | {"entries": [], "term": TERM_MAX, "prevLogTerm": 0}
    for value in (most,) if field == "term" else (0, most):
        said = whole | {field: value}
        assert decode_message(*split(encode_message(said))) == said
    for wrong in (most + 1, 1 << 62, (1 << 63) - 1, -1, True, 1.0, "1", None):
        with pytest.raises(FrameRefused, match=f"{message['type']}: {field} is"):
            decode_message(*split(encode_message(whole | {field: wrong})))


def test_deep_and_broken_msgpack_is_refused() -> None:
    """Depth without end, a length without bytes, trailing bytes: refused, not crashed on."""
    for meta in (b"\x91" * 100_000, b"\xdb\xff\xff\xff\xff", b"\xc1", b"\x91\x0c\x0c", b"\xd9\x02\xff\xff"):
        with pytest.raises(FrameRefused):
            decode_message(meta, memoryview(b""), 0)


def test_a_blob_where_none_belongs_is_refused() -> None:
    """Bytes behind a message that carries none are refused."""
    with pytest.raises(FrameRefused, match="checksum or length"):
        decode_message(*split(encode_frame([12], [b"x"])))


def test_a_piece_over_its_limit_is_refused() -> None:
    """A snapshot's piece carries a mebibyte at the most: a heartbeat may stand behind it."""
    large = PIECE | {"data": bytes((1 << 20) + 1)}
    with pytest.raises(FrameRefused, match="1048577 bytes; the limit is 1048576"):
        decode_message(*split(encode_message(large)))
