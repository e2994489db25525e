"""Records: encoded once, patched in apply, read back whole or not at all."""

import zlib

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.format.checksum import checksum_rows
from storage.format.position import pack
from storage.format.rows import Corrupt, FormatRefused
from storage.record.record import (
    HEADER,
    RANDOM_WORD,
    RECORD_HEADER_SIZE,
    RECORD_MOVED,
    Drafts,
    RecordColumns,
    decode_record,
    decode_records,
    encode_records,
    patch,
)
from storage.record.record_rewrite import redraft
from tests.examples import examples

DRAFT = st.tuples(
    st.binary(max_size=40),
    st.lists(st.text(max_size=8).filter(lambda tag: len(tag.encode()) <= 64), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    st.binary(max_size=10),
    st.sampled_from(["", "text/plain", "application/octet-stream"]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**50 - 1),
    st.tuples(st.binary(max_size=9), st.binary(max_size=9), st.dictionaries(st.text(max_size=5), st.integers(0, 9))),
)
Row = tuple[bytes, list[str], dict[str, str], bytes, str, int, int, tuple[bytes, bytes, dict[str, int]]]


def _patched(records: RecordColumns, first: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    count = len(records)
    words = np.frombuffer(bytearray(records.blob), np.uint64)
    starts = patch(
        words,
        records.size,
        group=5,
        hour=np.full(count, 490_000),
        global_index=np.arange(first, first + count),
        topic=np.arange(count, dtype=np.uint32) + np.uint32(0xFFFF_0000),
        created_ms=1_790_000_000_125,
    )
    assert (starts * 8 == np.cumsum(records.size) - records.size).all()
    return words


@examples(60)
@given(st.lists(DRAFT, min_size=1, max_size=20))
def test_round_trip(rows: list[Row]) -> None:
    """Every field of every message comes back, with the id, topic and time that apply gave; and written again for a
    move they are the same bytes."""
    drafts = _drafts(rows)
    records = encode_records(drafts)
    words = _patched(records, first=1 << 39)
    data = words.tobytes()
    starts = (np.cumsum(records.size) - records.size).tolist()
    random = words[np.array(starts) // 8 + RANDOM_WORD].tolist()
    found = decode_records(data, starts, "log", [64 + start for start in starts])
    for place, (row, record) in enumerate(zip(rows, found, strict=True)):
        assert (record.body, list(record.tags), record.headers, record.key, record.content_type) == row[:5]
        assert (record.asked_due_ms, record.random) == row[5:7] == (record.asked_due_ms, random[place])
        assert record.position == record.place == pack(490_000, (1 << 39) + place)
        assert (record.group, record.created_ms, record.topic) == (5, 1_790_000_000_125, 0xFFFF_0000 + place)
        assert (record.priority, record.expiry_ms, record.kind, record.attempt) == (place % 256, place * 7, 1, place)
        assert (record.target, record.order_key, record.extension) == row[7]
        assert record.flags == 0
    assert redraft(found).blob == records.blob
    assert redraft(found[::-1]).blob == encode_records(_drafts(rows, slice(None, None, -1))).blob


def _drafts(rows: list[Row], order: slice = slice(None)) -> Drafts:
    numbers = np.arange(len(rows))[order]
    rows = rows[order]
    return Drafts(
        bodies=[row[0] for row in rows],
        tags=[tuple(tag.encode() for tag in row[1]) for row in rows],
        headers=[msgpack.packb(row[2]) if row[2] else b"" for row in rows],
        keys=[row[3] for row in rows],
        content_types=[row[4].encode() for row in rows],
        asked_due_ms=np.array([row[5] for row in rows]),
        random=np.array([row[6] for row in rows], np.uint64),
        priority=numbers.astype(np.uint8),
        expiry_ms=numbers * 7,
        attempts=numbers.astype(np.uint16),
        targets=[row[7][0] for row in rows],
        order_keys=[row[7][1] for row in rows],
        extensions=[msgpack.packb(row[7][2]) if row[7][2] else b"" for row in rows],
    )


def test_a_moved_record() -> None:
    """A record written for a move keeps the id of its home and the time it was created, and says where it stands; what
    the move changes is changed, and nothing else."""
    old = decode_record(_one(), "log", 64)
    extensions = [{"revision": 2}]
    due = np.array([77])
    records = redraft([old], asked_due_ms=due, attempts=np.array([4], np.uint16), extensions=extensions)
    words = np.frombuffer(bytearray(records.blob), np.uint64)
    patch(
        words,
        records.size,
        group=old.group,
        hour=np.array([490_009]),
        global_index=np.array([3]),
        topic=np.array([old.topic], np.uint32),
        created_ms=np.array([old.created_ms]),
        homes=np.array([old.position], np.uint64),
    )
    new = decode_record(words.tobytes(), "log", 64)
    changed = {"asked_due_ms": 77, "attempt": 4, "extension": extensions[0]}
    assert new == msgspec.structs.replace(old, place=pack(490_009, 3), flags=RECORD_MOVED, **changed)


def _one() -> bytes:
    drafts = Drafts([b"body!"], np.array([5]), np.array([9], np.uint64), tags=[(b"eu", b"vip")], keys=[b"k"])
    return _patched(encode_records(drafts)).tobytes()


def test_columns_left_out_cost_nothing() -> None:
    """Without optional columns a record is header, body and padding: nothing else."""
    records = encode_records(Drafts([b"123456789", b""], np.array([1, 2]), np.array([3, 4], np.uint64)))
    assert records.size.tolist() == [RECORD_HEADER_SIZE + 16, RECORD_HEADER_SIZE]
    assert records.blob[RECORD_HEADER_SIZE:][:16] == b"123456789" + bytes(7)


def test_every_flipped_bit_is_refused() -> None:
    """A record with any bit flipped, padding and lengths too, is Corrupt and says where."""
    data = _one()
    assert len(data) % 8 == 0
    assert data[-1] == 0, "the example has padding"
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt, match="some/log at byte 4096"):
            decode_record(bytes(flipped), "some/log", 4096)


def test_every_cut_is_refused() -> None:
    """A record cut anywhere is Corrupt."""
    data = _one()
    for length in range(len(data)):
        with pytest.raises(Corrupt, match="log at byte 64"):
            decode_record(data[:length], "log", 64)


@pytest.mark.parametrize(("field", "value"), [("version", 2), ("flags", 2), ("flags", 3), ("place", 9)])
def test_unknown_versions_are_refused(field: str, value: int) -> None:
    """A sound record of another version, or with a flag unknown here, is named and refused, not guessed at."""
    header = np.frombuffer(bytearray(_one()[:RECORD_HEADER_SIZE]), HEADER)
    header[field] = value
    header["header_checksum"] = checksum_rows(header.view(np.uint64).reshape(1, -1), (1, 0))
    with pytest.raises(FormatRefused, match=f"{field} {value}"):
        decode_record(header.tobytes() + _one()[RECORD_HEADER_SIZE:], "log", 64)


def test_the_payload_checksum_is_zlibs() -> None:
    """Spark's crc32() must find the same number, so it is not to be changed by accident."""
    data = _one()
    header = np.frombuffer(data[:RECORD_HEADER_SIZE], HEADER)[0]
    assert int(header["payload_crc"]) == zlib.crc32(b"\x02eu\x03vipkbody!")


def test_lengths_that_do_not_fit_are_refused() -> None:
    """A part too long for its length field is an error, never cut."""
    with pytest.raises(OverflowError):
        encode_records(Drafts([b""], np.array([1]), np.array([1], np.uint64), headers=[bytes(65_536)]))
    with pytest.raises(AssertionError):
        encode_records(Drafts([bytes(1 << 24)], np.array([1]), np.array([1], np.uint64)))


def test_a_batch_must_name_its_sizes() -> None:
    """Sizes that are not those of the records are caught before anything is written."""
    records = encode_records(Drafts([b"1", b"2"], np.array([1, 2]), np.array([3, 4], np.uint64)))
    with pytest.raises(AssertionError):
        _patched(RecordColumns(records.blob, records.size + np.uint32(8)))
    with pytest.raises(AssertionError):
        _patched(RecordColumns(records.blob, (records.size + np.array([8, -8])).astype(np.uint32)))
