"""The bytes of the journal: golden ones, and what makes a record whole."""

from pathlib import Path

import pytest

from replication.journal.journal import Journal
from replication.journal.record import (
    ENTRY,
    HEAD_SIZE,
    META,
    Record,
    decode_record,
    encode_head,
    find_proof,
    seed_of,
)
from tests.replication.memory_disk import MemoryDisk

GOLDEN = Path(__file__).parents[1] / "golden" / "journal_v1.hex"
SEED = seed_of(3)


def record(offset: int, batch: int, body: bytes, index: int = 9) -> bytes:
    """An entry of segment 3 as it stands in the file."""
    return encode_head(SEED, offset, batch, ENTRY, index, 2, body) + body


def test_golden_bytes(pytestconfig: pytest.Config) -> None:
    """One segment with a record of every kind is, byte for byte, what version 1 wrote."""
    disk = MemoryDisk()
    journal = Journal.open(Path(), disk=disk, group=1, cluster_id=bytes(range(16)))
    for index in range(1, 4):
        journal.add(b"command %d" % index, index, 1)
    journal.sync_now()
    journal.deleteEntriesFrom(2)
    journal.add(b"another 3", 3, 2)
    journal.setRaftCommitIndex(3)
    journal.setCurrentTerm(2, "n1")
    journal.set_voter(True)
    journal.close()
    (path, inode), *others = disk.names.items()
    assert (path.name, others) == ("00000000000000000001.seg", [])
    text = bytes(inode.seen).hex(" ", -32).replace(" ", "\n") + "\n"
    if pytestconfig.getoption("--golden"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_golden_bytes_are_read() -> None:
    """What version 1 wrote opens to what was put in."""
    disk = MemoryDisk()
    fd = disk.open_write(Path("00000000000000000001.seg"))
    disk.write(fd, bytes.fromhex(GOLDEN.read_text()), 0)
    journal = Journal.open(Path(), disk=disk, group=1, cluster_id=bytes(range(16)))
    assert journal[:] == [(b"command 1", 1, 1), (b"command 2", 2, 1), (b"another 3", 3, 2)]
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.voter) == (2, "n1", True)
    assert journal.getRaftCommitIndex() == 3


def test_round_trip() -> None:
    """Every field of a head comes back, and where the record ends."""
    body = b"n2"
    head = encode_head(SEED, 64, 64, META, 1 << 40, (1 << 32) - 1, body, flags=3)
    assert len(head) == HEAD_SIZE
    found = decode_record(bytes(64) + head + body, 64, SEED)
    assert found == Record(64, 96, 98, 64, 1 << 40, (1 << 32) - 1, META, 3, 0)


def test_every_flipped_bit_shows() -> None:
    """No single-bit flip of head or body leaves a whole record."""
    good = record(0, 0, b"a body")
    assert decode_record(good, 0, SEED) is not None
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        assert decode_record(bytes(bad), 0, SEED) is None


def test_every_cut_shows() -> None:
    """A record that is not all there is none; zeros are none."""
    good = record(0, 0, b"a body")
    assert not [size for size in range(len(good)) if decode_record(good[:size], 0, SEED)]
    assert decode_record(bytes(200), 0, SEED) is None


def test_whole_only_in_its_own_place() -> None:
    """The same bytes at another offset, or in another segment, are no record: nobody's body can pose as one."""
    good = record(0, 0, b"a body")
    assert decode_record(bytes(8) + good, 8, SEED) is None
    assert decode_record(good, 0, seed_of(4)) is None


@pytest.mark.parametrize("gap", range(4, 12))
def test_proof_is_found_at_any_distance(gap: int) -> None:
    """A later whole record counts only if its write began behind the bad byte, whatever its alignment."""
    for batch, proves in ((50, False), (100, False), (101, True), (100 + gap, True)):
        data = bytes(100) + b"\xff" * gap + record(100 + gap, batch, b"later" * 7) + b"rest"
        found = find_proof(data, 100, SEED)
        assert (found is not None) == proves
        if found is not None:
            assert found.offset == 100 + gap


def test_no_proof_in_the_rest_of_a_file() -> None:
    """At and near the end of the file there is nothing to find, and nothing is read beyond it."""
    data = bytes(100) + record(100, 100, b"")
    assert [find_proof(data, bad, SEED) for bad in range(100, len(data) + 1)] == [None] * (len(data) - 99)
