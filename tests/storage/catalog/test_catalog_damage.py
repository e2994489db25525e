"""Damage to the catalog's file is found: flipped bits, lost rows, another format."""

import random
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import lmdb
import pytest

from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.format.position import pack
from storage.format.rows import Corrupt, FormatRefused
from storage.lmdb.table import seal_value
from tests.storage.catalog.test_catalog import checkpoint, entry


def saved(path: Path, keys: Iterable[tuple[bytes, int, int]]) -> Path:
    """A checkpointed catalog whose topic 5 has these keys: (key, hour, index). Its path."""
    catalog = Catalog.open(path, Disk())
    for key, hour, index in keys:
        catalog.put_key(5, key, entry(pack(hour, index)))
    checkpoint(catalog, 1)
    catalog.close()
    return path


def flip(path: Path, needle: bytes, at: int, bit: int) -> None:
    """Flip one bit in every place of the LMDB file where these bytes stand."""
    data = bytearray(path.read_bytes())
    places = [place for place in range(len(data)) if data.startswith(needle, place)]
    assert places
    for place in places:
        data[place + at] ^= 1 << bit
    path.write_bytes(data)


def test_every_flipped_byte_of_a_value_is_found(tmp_path: Path) -> None:
    """A flipped bit in any byte of a stored value, or of its checksum, is Corrupt when read, and a fault in verify."""
    path = tmp_path / "catalog"
    catalog = Catalog.open(path, Disk())
    held = entry(pack(9, 77), 200)
    catalog.put_key(5, b"payment-1", held)
    checkpoint(catalog, 1)
    [value] = [value for table, _, value in catalog.dump() if table == b"keys"]
    catalog.close()
    stored = seal_value(b"keys", b"\x00\x00\x00\x05payment-1", value)
    clean = (path / "data.mdb").read_bytes()
    for at in range(len(stored)):
        flip(path / "data.mdb", stored, at, at % 8)
        catalog = Catalog.open(path, Disk())
        with pytest.raises(Corrupt, match="checksum"):
            catalog.key(5, b"payment-1")
        assert any("checksum" in fault for fault in catalog.faults())
        catalog.close()
        (path / "data.mdb").write_bytes(clean)


def test_a_flipped_key_is_found_by_verify(tmp_path: Path) -> None:
    """A row whose key was damaged is a fault, since the checksum covers the key as well."""
    path = saved(tmp_path / "catalog", [(b"payment-1", 9, 77)])
    flip(path / "data.mdb", b"payment-1", 8, 0)
    catalog = Catalog.open(path, Disk())
    assert len([fault for fault in catalog.faults() if "checksum" in fault]) == 2
    catalog.close()


@pytest.mark.parametrize("bit", [6, 3])
@pytest.mark.parametrize("number", [0, 17, 39])
def test_a_flipped_key_among_rows_is_found_by_who_reads_these(tmp_path: Path, number: int, bit: int) -> None:
    """Seed 22088: a bit of the hour in one row. The rows of the hour ended there, 31 of 84 keys went with it, and only
    the others' hash told that this node was wrong. To hour 73 and to hour 1, at each end and between."""
    path = saved(tmp_path / "catalog", ((b"payment-%02d" % each, 9, each) for each in range(40)))
    hour, topic = (9).to_bytes(4, "big"), (5).to_bytes(4, "big")
    flip(path / "data.mdb", hour + topic + b"payment-%02d" % number, 3, bit)
    catalog = Catalog.open(path, Disk())
    with pytest.raises(Corrupt, match="checksum"):
        catalog.drop_hour_keys(9)
    catalog.close()


def test_a_damaged_topic_or_record_stops_the_node(tmp_path: Path) -> None:
    """Topics and the checkpoint record are read at the start: damage there is Corrupt from open."""
    path = tmp_path / "catalog"
    catalog = Catalog.open(path, Disk())
    catalog.put_topic("invoices", {}, 1)
    checkpoint(catalog, 0x1122334455)
    catalog.close()
    clean = (path / "data.mdb").read_bytes()
    for needle in (b"invoices", (0x1122334455).to_bytes(8, "little")):
        flip(path / "data.mdb", needle, 2, 3)
        with pytest.raises(Corrupt):
            Catalog.open(path, Disk())
        (path / "data.mdb").write_bytes(clean)
    Catalog.open(path, Disk()).close()


def change_row(path: Path, table: bytes, key: bytes, stored: bytes | None) -> None:
    """Put a stored value into the catalog's LMDB, or remove a row, behind the catalog's back."""
    with lmdb.open(str(path), max_dbs=16) as environment:
        database = environment.open_db(table)
        with environment.begin(write=True) as transaction:
            if stored is None:
                assert transaction.delete(key, db=database)
            else:
                transaction.put(key, stored, db=database)


def test_a_lost_and_an_added_row_are_found(tmp_path: Path) -> None:
    """A row that vanished, or one with a right checksum that nobody wrote, shows in count and hash."""
    path = tmp_path / "catalog"
    catalog = Catalog.open(path, Disk())
    catalog.put_topic("a", {}, 1)
    checkpoint(catalog, 1)
    catalog.close()
    change_row(path, b"keys", b"stranger", seal_value(b"keys", b"stranger", b"value"))
    catalog = Catalog.open(path, Disk())
    faults = catalog.faults()
    catalog.close()
    assert [word for fault in faults for word in ("rows", "hash") if word in fault] == ["rows", "hash"]
    change_row(path, b"keys", b"stranger", None)
    change_row(path, b"meta", b"next_topic", None)
    catalog = Catalog.open(path, Disk())
    assert len(catalog.faults()) == 2
    catalog.close()


def test_another_format_is_refused(tmp_path: Path) -> None:
    """A catalog of a newer format is refused by name; a missing format is damage; a file that is no LMDB as well."""
    path = tmp_path / "catalog"
    Catalog.open(path, Disk()).close()
    change_row(path, b"about", b"format", seal_value(b"about", b"format", (2).to_bytes(4, "little")))
    with pytest.raises(FormatRefused, match="catalog format 2"):
        Catalog.open(path, Disk())
    catalog = Catalog.open(tmp_path / "other", Disk())
    checkpoint(catalog, 1)
    catalog.close()
    change_row(tmp_path / "other", b"about", b"format", None)
    with pytest.raises(Corrupt, match="catalog format is missing"):
        Catalog.open(tmp_path / "other", Disk())
    (tmp_path / "other" / "data.mdb").write_bytes(b"x" * 65536)
    with pytest.raises(Corrupt, match="LMDB"):
        Catalog.open(tmp_path / "other", Disk())


def test_lmdbs_own_damage_is_corrupt(tmp_path: Path) -> None:
    """A damaged page header inside the LMDB file is Corrupt when it is met, like any other damage."""
    path = tmp_path / "catalog"
    catalog = Catalog.open(path, Disk())
    for number in range(200):
        catalog.put_key(1, b"%03d" % number, entry(pack(1, number)))
    checkpoint(catalog, 1)
    catalog.close()
    data = bytearray((path / "data.mdb").read_bytes())
    for page in range(4096, len(data), 4096):
        if data.count(entry(pack(1, 100)).fingerprint, page, page + 4096) > 10:
            data[page + 10] = 0  # the page's type
    (path / "data.mdb").write_bytes(data)
    catalog = Catalog.open(path, Disk())
    with pytest.raises(Corrupt, match="LMDB"):
        catalog.key(1, b"100")
    with pytest.raises(Corrupt, match="LMDB"):
        list(catalog.dump())
    assert len(catalog.faults()) >= 1
    catalog.close()


def branch_keys(data: bytes, table: bytes) -> Iterator[int]:
    """Where keys of LMDB's branch pages stand whose second four bytes are these: of rows by hour, the topic."""
    for page in range(0, len(data), 4096):
        flags, lower = struct.unpack_from("<HH", data, page + 10)
        if flags & 1 and not flags & 8:  # a branch, and no meta page
            for node in range((lower - 16) // 2):
                at = page + struct.unpack_from("<H", data, page + 16 + 2 * node)[0]
                if struct.unpack_from("<H", data, at + 6)[0] >= 8 and data[at + 12 : at + 16] == table:
                    yield at + 8


def test_a_flipped_key_of_a_branch_hides_no_row(tmp_path: Path) -> None:
    """Branches have no checksum: a look-up goes to a leaf beside the right one, where all rows are sound."""
    count = 150
    keys = [(b"payment-%04d-%03d" % (each, hour), hour, each) for hour in range(100, 112) for each in range(count)]
    path = saved(tmp_path / "catalog", keys)
    clean = (path / "data.mdb").read_bytes()
    found: Counter[str] = Counter()
    for at, bit in product(branch_keys(clean, (5).to_bytes(4, "big")), (0, 1, 6)):
        data = bytearray(clean)
        data[at + 3] ^= 1 << bit
        (path / "data.mdb").write_bytes(data)
        for hour in {clean[at + 3], data[at + 3]} & set(range(100, 112)):
            catalog = Catalog.open(path, Disk())
            try:
                assert catalog.drop_hour_keys(hour) == count
                found["all"] += 1
            except Corrupt:
                found["corrupt"] += 1
            catalog.close()
    assert found["corrupt"] > 3, found


def test_a_damaged_key_that_its_hour_lists_is_corrupt(tmp_path: Path) -> None:
    """It was an assertion: the node ended with the word of a defect, and again at each start."""
    path = saved(tmp_path / "catalog", ((b"payment-%02d" % each, 9, each) for each in range(40)))
    clean = (path / "data.mdb").read_bytes()
    needle = (5).to_bytes(4, "big") + b"payment-17"
    at = next(
        at for at in range(len(clean)) if clean.startswith(needle, at) and clean[at - 4 : at] != bytes([0, 0, 0, 9])
    )
    (path / "data.mdb").write_bytes(clean[: at + 13] + bytes([clean[at + 13] ^ 1]) + clean[at + 14 :])
    catalog = Catalog.open(path, Disk())
    catalog.forget_hour_keys(9, 40)
    with pytest.raises(Corrupt):
        catalog.drop_dead_keys()
    catalog.close()


def test_a_row_that_seems_to_be_of_another_hour_takes_no_sound_one_with_it(tmp_path: Path) -> None:
    """One bit makes a row of hour 9 one of hour 8, behind its own: rows of hour 8 that were read are not looked for
    again, for that look would go astray."""
    chance = random.Random(5)
    names = {hour: [b"%08x" % chance.getrandbits(32) for _ in range(count)] for hour, count in ((8, 12), (9, 28))}
    keys = [(key, hour, each) for hour, its in names.items() for each, key in enumerate(its)]
    path = saved(tmp_path / "catalog", keys)
    clean = (path / "data.mdb").read_bytes()
    for key in names[9]:
        flip(path / "data.mdb", (9).to_bytes(4, "big") + (5).to_bytes(4, "big") + key, 3, 0)
        catalog = Catalog.open(path, Disk())
        catalog.forget_hour_keys(8, 12)
        with suppress(Corrupt):
            assert catalog.drop_dead_keys() == 12
        catalog.close()
        (path / "data.mdb").write_bytes(clean)
