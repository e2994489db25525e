"""Messages that are scheduled in one step: all of them, or none."""

import numpy as np
import pytest

from replication.command.entry import EntryRefused, Section
from replication.command.schedule import Key, Schedule, ScheduleAll
from storage.format.schedule_status import CONFLICT, FAILED, KEPT, NEW, REPLAYED
from storage.record.record import Drafts, encode_records
from tests.replication.applied_log import T0, Log, cancel, key, placed, schedule

pytestmark = pytest.mark.usefixtures("newest_level")


def everything(*keys: Key, topics: tuple[str, ...] = ("orders",)) -> ScheduleAll:
    """A batch with a message for each key, the last of them of the last topic."""
    n = len(keys)
    due = np.full(n, T0 + 5_000, np.int64)
    records = encode_records(
        Drafts([b"1"] * n, due, np.arange(1, n + 1, dtype=np.uint64), keys=[each.key for each in keys])
    )
    topic = np.zeros(n, np.uint16)
    topic[-1] = len(topics) - 1
    return ScheduleAll(Schedule(topics, due, records.size, records.blob, topic, np.empty(0, np.uint64), keys))


def named(row: int, name: bytes, mark: bytes = b"f", rule: int = 0) -> Key:
    """A key of a row."""
    return Key(row, name, mark * 16, rule)


def test_all_and_all_again(log: Log) -> None:
    """The same batch again has the same answer."""
    batch = everything(named(0, b"a"), named(1, b"b"), named(2, b"c"), topics=("orders", "bills"))
    first = log.apply(batch).results[0]
    assert first.status.tolist() == [NEW] * 3
    again = log.apply(batch).results[0]
    assert again.status.tolist() == [REPLAYED] * 3
    assert (again.position.tolist(), again.random.tolist()) == (first.position.tolist(), first.random.tolist())


def test_one_conflict_and_none(log: Log) -> None:
    """Nothing is written: no unit, no key, no topic. The conflict names the holder."""
    (home,) = placed(log.apply(schedule(T0 + 9, keys=(key(0, b"z"),))))
    before = log.store.unit_count
    batch = everything(named(0, b"a"), named(1, b"k"), named(2, b"c"), topics=("orders", "bills"))
    refused = log.apply(batch).results[0]
    assert refused.status.tolist() == [FAILED, CONFLICT, FAILED]
    assert (refused.position.tolist(), refused.due_ms.tolist()) == ([0, home, 0], [0, T0 + 9, 0])
    topic = log.store.catalog.topic("orders")
    assert topic is not None
    assert (log.store.unit_count, log.store.catalog.topic("bills")) == (before, None)
    assert log.store.catalog.key(topic.number, b"a") is None
    kept = everything(named(0, b"a"), named(1, b"k", rule=1), named(2, b"c"))
    assert log.apply(kept).results[0].status.tolist() == [NEW, KEPT, NEW]


def test_a_key_whose_time_is_over_is_free(log: Log) -> None:
    """As for a message alone."""
    (home,) = placed(log.apply(schedule(T0 + 9, keys=(key(0, b"z"),))))
    log.apply(cancel(home))
    batch = everything(named(0, b"a"), named(1, b"k"))
    assert log.apply(batch, now_ms=T0 + 50_000).results[0].status.tolist() == [FAILED, CONFLICT]
    assert log.apply(batch, now_ms=T0 + 70_000).results[0].status.tolist() == [NEW, NEW]


def section_of(command: ScheduleAll) -> Section:
    """Its section as an entry has it."""
    kind, rows, payload = command.pack()
    return Section(kind, rows, memoryview(b"".join(bytes(part) for part in payload)))


def test_each_row_has_a_key_of_its_own() -> None:
    """A command with one that has none is refused, or has that of another row. The same key of another topic is
    another."""
    whole = everything(named(0, b"a"), named(1, b"b")).messages
    less = Schedule(whole.topics, whole.due_ms, whole.size, whole.blob, whole.topic, whole.tags, whole.keys[:1])
    with pytest.raises(EntryRefused, match="1 keys of 2 rows"):
        ScheduleAll.unpack(section_of(ScheduleAll(less)))
    with pytest.raises(EntryRefused, match="two rows with one key"):
        ScheduleAll.unpack(section_of(everything(named(0, b"a"), named(1, b"a"))))
    apart = everything(named(0, b"a"), named(1, b"a"), topics=("orders", "bills"))
    assert len(ScheduleAll.unpack(section_of(apart)).messages.keys) == 2
