"""Records read in columns: the same as one by one, and as sure to notice what is not as written."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.file.disk import Disk
from storage.format.array import I64
from storage.format.batches import UnitBatch
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt, FormatRefused
from storage.record.record import KIND_MESSAGE, Drafts, Record, decode_records, encode_records, patch
from storage.record.record_rows import FEW, RecordRows, decode_rows
from storage.store import Store
from tests.examples import examples

ROW = st.tuples(st.binary(max_size=40), st.lists(st.text(max_size=8), max_size=2), st.binary(max_size=10))
Row = tuple[bytes, list[str], bytes]
REFUSED = (Corrupt, FormatRefused)


def encoded(rows: list[Row]) -> tuple[bytes, I64]:
    """The records of these bodies, tags and keys as they stand in a log, and where each begins."""
    count = len(rows)
    records = encode_records(drafts(rows))
    words = np.frombuffer(bytearray(records.blob), np.uint64)
    starts = patch(
        words,
        records.size,
        group=0,
        hour=np.full(count, 490_000),
        global_index=np.arange(count),
        topic=np.ones(count, np.uint32),
        created_ms=9,
    )
    return words.tobytes(), starts * 8


def drafts(rows: list[Row]) -> Drafts:
    """These bodies, tags and keys as the proposer has them."""
    return Drafts(
        bodies=[body for body, _, _ in rows],
        asked_due_ms=np.arange(len(rows)) * 7,
        random=np.arange(len(rows), dtype=np.uint64),
        tags=[tuple(tag.encode() for tag in tags) for _, tags, _ in rows],
        keys=[key for _, _, key in rows],
    )


def check(rows: RecordRows, records: list[Record]) -> None:
    """Both say the same."""
    assert len(rows) == len(records)
    assert rows.bodies == [record.body for record in records]
    for name in ("position", "place", "random", "asked_due_ms", "created_ms"):
        column = getattr(rows, name)
        assert column.tolist() == [getattr(record, name) for record in records], name
        assert column.flags.c_contiguous
    assert rows.rest == {row: record for row, record in enumerate(records) if record.tags or record.key}


@examples(60)
@given(st.lists(ROW, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_columns_say_what_records_say(rows: list[Row], random: Random) -> None:
    """Whatever the records hold, in whatever order they are asked for."""
    data, starts = encoded(rows)
    order = np.array(random.sample(range(len(rows)), len(rows)))
    at = starts[order]
    records = decode_records(data, at.tolist(), "log", (at + 64).tolist())
    check(decode_rows(data, at, "log", at + 64), records)
    check(RecordRows.of(records), records)


@examples(200)
@given(st.lists(ROW, min_size=1, max_size=4), st.data())
def test_no_flipped_bit_goes_unnoticed(rows: list[Row], data: st.DataObject) -> None:
    """Nor one in the padding; and the refusal names the file and the record's own place in it."""
    good, starts = encoded(rows)
    bit = data.draw(st.integers(0, len(good) * 8 - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises(REFUSED) as refused:
        decode_rows(bytes(bad), starts, "log", starts + 640)
    row = int(np.searchsorted(starts, bit // 8, side="right")) - 1
    assert f"log at byte {starts[row] + 640}" in str(refused.value)


@given(st.lists(ROW, min_size=1, max_size=3), st.integers(1, 12))
def test_a_record_that_is_cut_off_is_refused(rows: list[Row], words: int) -> None:
    """The file ends within the last one."""
    data, starts = encoded(rows)
    with pytest.raises(Corrupt, match="length"):
        decode_rows(data[: -8 * words], starts, "log", starts)


def test_rows_of_several_hours_near_and_far(tmp_path: Path) -> None:
    """What is on disk and what is staged come together in the order asked for."""
    store = Store.open(tmp_path, disk=Disk())
    store.found(b"c" * 16)
    store.turn(500)
    rows: list[Row] = [(b"%d" % row * (row % 5), ["eu"] if row % 3 == 0 else [], b"") for row in range(60)]
    records = encode_records(drafts(rows))
    due_ms = np.array([(500 + row % 2 * 2_000) * HOUR_MS + row for row in range(60)])
    none = np.zeros(60, np.uint64)
    batch = UnitBatch(
        due_ms=due_ms,
        size=records.size,
        topic=none.astype(np.uint32),
        tags=none,
        kind=np.full(60, KIND_MESSAGE, np.uint8),
        priority=none.astype(np.uint8),
        attempt=none.astype(np.uint16),
        flags=none.astype(np.uint32),
        records=records.blob,
        created_ms=5,
    )
    positions = store.append(batch)
    for order in (np.arange(60), np.random.default_rng(5).permutation(60), np.arange(0, 60, 2), np.arange(FEW)):
        asked = positions[order]
        check(store.record_rows(asked), store.records(asked))
        check(store.record_rows(asked, store.units(asked)), store.records(asked, store.units(asked)))
    store.close()
