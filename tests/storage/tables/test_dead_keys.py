"""The keys of unlinked hours go a few at a time, the same ones whatever a node has in LMDB and what in memory."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import storage.lmdb.table
import storage.tables.key
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.format.position import pack
from tests.storage.catalog.test_catalog import checkpoint, entry

HOURS = 3


class _Keyed:
    """Two catalogs that are told the same: one is checkpointed and opened anew now and then, the other never."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.paths = [directory / "moved", directory / "still"]
        self.catalogs = [Catalog.open(path, Disk()) for path in self.paths]
        self.random = random
        self.first = [0] * HOURS
        self.next = [0] * HOURS
        self.index = 0

    def put(self) -> None:
        """A key of a new unit, perhaps over an older one's."""
        hour, name = self.random.randrange(HOURS), b"k%d" % self.random.randrange(30)
        for catalog in self.catalogs:
            catalog.put_key(1, name, entry(pack(hour, self.next[hour])))
        self.next[hour] += 1

    def unlink(self) -> None:
        """An hour goes; it may be begun again at once."""
        hour = self.random.randrange(HOURS)
        for catalog in self.catalogs:
            catalog.forget_hour_keys(hour, self.next[hour])
        self.first[hour] = self.next[hour]

    def drop(self) -> int:
        """A few dead keys: no entry takes more, however many there are (A4)."""
        for catalog in self.catalogs:
            catalog.written.take()
        dropped = [catalog.drop_dead_keys() for catalog in self.catalogs]
        assert len(set(dropped)) == 1
        assert dropped[0] <= storage.tables.key.DROPPED_MAX
        assert len({catalog.written.take() for catalog in self.catalogs}) == 1
        return dropped[0]

    def save(self) -> None:
        """A checkpoint of one of them; sometimes its node starts anew."""
        self.index += 1
        checkpoint(self.catalogs[0], self.index)
        if self.random.randrange(2):
            self.catalogs[0].close()
            self.catalogs[0] = Catalog.open(self.paths[0], Disk())

    def check(self) -> None:
        """The same content, and of the living keys all."""
        assert list(self.catalogs[0].dump()) == list(self.catalogs[1].dump())

    def living(self) -> list[bytes]:
        """The keys there are of units of hours that are not unlinked."""
        rows = [(b"k%d" % number, self.catalogs[0].key(1, b"k%d" % number)) for number in range(30)]
        return [name for name, held in rows if held and held.position & 0xFFFF >= self.first[held.position >> 40]]


@pytest.mark.parametrize("seed", range(30))
def test_the_same_keys_go_on_every_node(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts, unlinks, hours begun again, checkpoints and restarts in any order; in the end no dead key is left."""
    monkeypatch.setattr(storage.tables.key, "DROPPED_MAX", 3)
    monkeypatch.setattr(storage.tables.key, "_HOUR_COST", 1)
    monkeypatch.setattr(storage.lmdb.table, "RUN_KEYS", 4)
    random = Random(seed)
    keyed = _Keyed(tmp_path, random)
    for _ in range(120):
        random.choice((keyed.put, keyed.put, keyed.put, keyed.drop, keyed.unlink, keyed.save))()
        keyed.check()
    living = keyed.living()
    for _ in range(60):
        keyed.drop()
    keyed.check()
    assert keyed.drop() == 0
    assert keyed.living() == living
    rows = [key for table, key, _ in keyed.catalogs[0].dump() if table in (b"keys", b"hour_keys")]
    assert len(rows) == 2 * len(living)
    assert not [key for table, key, _ in keyed.catalogs[0].dump() if table == b"meta" and key.startswith(b"dead")]
    for catalog in keyed.catalogs:
        catalog.close()


def test_a_few_keys_are_read_where_many_came_since_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys of the hour were read and sorted at the first entry behind it: 588 ms with 300,000."""
    catalog = Catalog.open(tmp_path / "catalog", Disk())
    for number in range(20 * storage.tables.key.DROPPED_MAX):
        catalog.put_key(1, b"k%d" % number, entry(pack(0, number)))
    catalog.forget_hour_keys(0, 20 * storage.tables.key.DROPPED_MAX)
    read: list[bytes] = []
    get = storage.lmdb.table.Table.get

    def counted(table: storage.lmdb.table.Table, key: bytes) -> bytes | None:
        read.append(key)
        return get(table, key)

    monkeypatch.setattr(storage.lmdb.table.Table, "get", counted)
    for _ in range(20):
        read.clear()
        assert catalog.drop_dead_keys() == storage.tables.key.DROPPED_MAX
        assert len(read) < 3 * storage.tables.key.DROPPED_MAX
    catalog.close()


@given(st.lists(st.binary(max_size=2)), st.binary(max_size=2))
def test_keys_behind_one_are_found_in_order(keys: list[bytes], after: bytes) -> None:
    """However many runs they came in, and whether or not the last one is full."""
    with pytest.MonkeyPatch.context() as short:
        short.setattr(storage.lmdb.table, "RUN_KEYS", 4)
        runs = storage.lmdb.table.SortedRuns()
        for number, key in enumerate(keys):
            runs.add(key)
            if number % 7 == 0:
                assert list(runs.behind(after)) == sorted(each for each in keys[: number + 1] if each > after)
    assert list(runs.behind(after)) == sorted(key for key in keys if key > after)
