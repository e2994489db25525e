"""What an Unlink costs, and what is left of an hour's keys."""

from pathlib import Path

import numpy as np
import pytest

import storage.tables.key
from replication.command.dispatch import DispatchState
from replication.command.schedule import Key
from replication.command.unlink import Unlink
from storage.lmdb.table import Table
from tests.replication.applied_log import GENESIS, HOUR_MS, T0, Log, ack, schedule

KEYS = 200
LATE_MS = T0 + HOUR_MS + 60_001


def _with_keys(path: Path, level: int) -> Log:
    """An hour of units with a key each, all delivered, past its retention."""
    log = Log(path)
    log.apply(GENESIS)
    log.store.level = level
    keys = tuple(Key(row, b"k%d" % row, bytes(16), 0) for row in range(KEYS))
    placed = log.apply(schedule(*([T0] * KEYS), keys=keys)).results[0].position.tolist()
    log.apply(ack(*((position, 1, 1) for position in placed)))
    log.apply(DispatchState((T0 + HOUR_MS) // 1000, 0, 1))
    return log


def _rows(log: Log) -> dict[bytes, int]:
    names = [table for table, _, _ in log.store.catalog.dump()]
    return {name: names.count(name) for name in (b"keys", b"hour_keys")}


@pytest.mark.parametrize("level", [1, 2])
def test_no_key_of_an_unlinked_hour_stays_for_ever(level: int, tmp_path: Path) -> None:
    """Two rows for each key would be kept for good."""
    log = _with_keys(tmp_path, level)
    assert _rows(log) == {b"keys": KEYS, b"hour_keys": KEYS}
    assert log.apply(Unlink(np.array([T0 // HOUR_MS], np.int64)), now_ms=LATE_MS).results[0] == 1
    for _ in range(3):
        log.apply(DispatchState(LATE_MS // 1000, 0, 1), now_ms=LATE_MS)
    assert _rows(log) == {b"keys": 0, b"hour_keys": 0}
    log.store.close()


def test_an_entry_drops_few_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour with a million keys held every node for 1.8 s in the entry that unlinked it (A4). A key that is dead and
    not dropped yet is free."""
    monkeypatch.setattr(storage.tables.key, "DROPPED_MAX", 30)
    log = _with_keys(tmp_path, 2)
    drops = 0
    drop = Table.drop

    def counted(table: Table, key: bytes) -> None:
        nonlocal drops
        drops += 1
        drop(table, key)

    monkeypatch.setattr(Table, "drop", counted)
    most = 0
    hour = np.array([T0 // HOUR_MS], np.int64)
    assert log.apply(Unlink(hour), now_ms=LATE_MS).results[0] == 1
    assert log.apply(Unlink(hour), now_ms=LATE_MS).results[0] == 1  # there is no such hour any more
    again = log.apply(schedule(LATE_MS, keys=(Key(0, b"k199", b"x" * 16, 0),)), now_ms=LATE_MS).results[0]
    assert again.status.tolist() == [0]
    for _ in range(20):
        drops = 0
        log.apply(DispatchState(LATE_MS // 1000, 0, 1), now_ms=LATE_MS)
        most = max(most, drops)
    assert most == 60
    assert _rows(log) == {b"keys": 1, b"hour_keys": 1}
    log.store.close()
