"""A segment read at once: the same records as one by one, whatever was done to its bytes."""

from random import Random

import pytest

from replication.journal.journal import Journal
from replication.journal.record import ENTRY, META, Record, decode_record, encode_head, seed_of
from replication.journal.scan import record_of, whole_records
from replication.journal.segment import Segment
from tests.replication.journal.test_recovery import CLUSTER, HERE, entries, reopen
from tests.replication.memory_disk import MemoryDisk

SEED = seed_of(7)


def _one_by_one(data: bytes, offset: int) -> list[Record]:
    found = []
    while record := decode_record(data, offset, SEED):
        found.append(record)
        offset = record.end
    return found


def _segment(random: Random) -> bytes:
    data = b"x" * 64
    for index in range(1, random.randrange(1, 30)):
        body = random.randbytes(random.choice((0, 1, 7, 32, 300)))
        kind = random.choice((ENTRY, ENTRY, META))
        data += encode_head(SEED, len(data), 64, kind, index, random.randrange(9), body, random.randrange(2)) + body
    return data


@pytest.mark.parametrize("seed", range(200))
def test_the_same_as_record_by_record(seed: int) -> None:
    """Cut, flipped, overwritten with zeros or with a copy of another record's place, or left alone."""
    random = Random(seed)
    data = bytearray(_segment(random))
    for _ in range(random.randrange(3)):
        at = random.randrange(64, len(data) + 1)
        match random.randrange(4):
            case 0:
                del data[at:]
            case 1:
                data[at - 1] ^= 1 << random.randrange(8)
            case 2:
                data[at : at + 40] = bytes(len(data[at : at + 40]))
            case _:
                data += random.randbytes(random.randrange(50))
        if len(data) <= 64:
            break
    heads = whole_records(bytes(data), 64, SEED)
    assert [record_of(heads, row) for row in range(len(heads))] == _one_by_one(bytes(data), 64)


def test_a_start_takes_no_step_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal of a gigabyte of small entries took 6.5 s of processor time to open (A10)."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, cluster_id=CLUSTER, segment_bytes=1 << 14)
    for entry in entries(1, 1_000):
        journal.add(*entry)
        if entry[1] % 100 == 0:
            journal.sync_now()
    journal.close()
    placed = 0

    def place(self: Segment, index: int, term: int, offset: int, length: int) -> None:
        nonlocal placed
        placed += 1

    monkeypatch.setattr(Segment, "place", place)
    again = reopen(disk)
    assert (again.last_index, placed) == (1_000, 0)
    assert [again.term_at(index) for index in (1, 500, 1_000)] == [1, 1, 1]
