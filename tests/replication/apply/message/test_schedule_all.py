"""Messages that are scheduled in one step: all of them, or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from replication.apply.message.message_location import FREE, IN_PROGRESS, LEASED
from replication.apply.message.supersede import VOID
from replication.command.entry import EntryRefused, Section
from replication.command.operation import BeginOperation
from replication.command.schedule import Key, Schedule
from replication.command.supersede import Changes, ScheduleAll
from storage.format import states as state
from storage.format.position import GONE
from storage.format.schedule_status import (
    CONFLICT,
    EXTEND,
    EXTENDED,
    FAILED,
    KEEP,
    KEPT,
    NEW,
    REPLACE,
    REPLACED,
    REPLAYED,
    SUPERSEDES,
)
from storage.record.record import Drafts, encode_records
from storage.tables.operation_row import OperationWish
from tests.replication.applied_log import HOUR_MS, T0, Log, cancel, key, lease, placed, schedule

pytestmark = pytest.mark.usefixtures("newest_level")
OPEN = [state.PENDING] * 3


def everything(
    *keys: Key, topics: tuple[str, ...] = ("orders",), holders: Mapping[int, int] | None = None, body: bytes = b"1"
) -> ScheduleAll:
    """A batch with a message for each key, the last of them of the last topic. `holders` are those that the leader
    holds, by row."""
    n = len(keys)
    due = np.full(n, T0 + 5_000, np.int64)
    records = encode_records(
        Drafts([body] * n, due, np.arange(1, n + 1, dtype=np.uint64), keys=[each.key for each in keys])
    )
    topic = np.zeros(n, np.uint16)
    topic[-1] = len(topics) - 1
    messages = Schedule(topics, due, records.size, records.blob, topic, np.empty(0, np.uint64), keys)
    if not any(key.on_conflict in SUPERSEDES for key in keys):
        return ScheduleAll(messages)
    home = np.full(n, GONE, np.uint64)
    for row, holder in (holders or {}).items():
        home[row] = holder
    zeros = np.zeros(n, np.uint8)
    return ScheduleAll(messages, Changes(home, zeros, np.full(n, 24 * HOUR_MS, np.int64), zeros))


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


def _holders(log: Log, *names: bytes) -> list[int]:
    """A message for each key, due in an hour."""
    keys = tuple(named(row, name, b"z") for row, name in enumerate(names))
    return placed(log.apply(everything(*keys), now_ms=T0))


def _mixed(homes: Sequence[int], *, plain: bytes = b"new") -> ScheduleAll:
    """A line of each rule: reject, replace, keep, extend."""
    return everything(
        named(0, plain),
        named(1, b"replaced", rule=REPLACE),
        named(2, b"kept", rule=KEEP),
        named(3, b"extended", rule=EXTEND),
        holders={1: homes[0], 3: homes[2]},
        body=b"2",
    )


def test_lines_that_change_the_holders(log: Log) -> None:
    """Each line does what it does alone, and says what was before."""
    homes = _holders(log, b"replaced", b"kept", b"extended")
    answer = log.apply(_mixed(homes)).results[0]
    assert answer.status.tolist() == [NEW, REPLACED, KEPT, EXTENDED]
    assert answer.previous[[1, 3]].tolist() == [homes[0], homes[2]]
    assert answer.position[[2, 3]].tolist() == homes[1:]
    assert answer.random[3] == 3
    assert log.state(homes[0]) == state.CANCELLED
    assert (log.record(log.place(homes[2])).body, log.record(int(answer.position[1])).body) == (b"2", b"2")
    again = log.apply(_mixed([int(answer.position[1]), homes[1], homes[2]])).results[0]
    assert again.status.tolist() == [REPLAYED, REPLACED, KEPT, EXTENDED]
    assert again.position[0] == answer.position[0]


@pytest.mark.parametrize("fault", ["conflict", "leased", "void", "in-progress"])
def test_a_line_at_fault_changes_no_holder(log: Log, fault: str) -> None:
    """Nothing is written, the holders stand as they stood, and the answer names the line alone."""
    homes = _holders(log, b"replaced", b"kept", b"extended", b"taken")
    named_homes = [homes[1] if fault == "void" else homes[0], *homes[1:]]
    if fault == "leased":
        log.apply(lease(homes[0]))
    if fault == "in-progress":
        log.apply(BeginOperation(OperationWish(kind="shift", topics=("orders",), by_ms=5), 1))
    before = log.store.unit_count
    answer = log.apply(_mixed(named_homes, plain=b"taken" if fault == "conflict" else b"new")).results[0]
    assert answer.status.tolist() == [CONFLICT if fault == "conflict" else FAILED, FAILED, FAILED, FAILED]
    why = {"conflict": FREE, "leased": LEASED, "void": VOID, "in-progress": IN_PROGRESS}[fault]
    assert answer.why.tolist() == [FREE, why, FREE, IN_PROGRESS if fault == "in-progress" else FREE]
    assert log.store.unit_count == before
    assert [log.state(home) for home in homes] == [state.LEASED if fault == "leased" else state.PENDING, *OPEN]
    assert [log.record(log.place(home)).body for home in homes] == [b"1"] * 4


def test_a_line_of_a_topic_that_is_none_yet(log: Log) -> None:
    """A line that replaces is scheduled, and its topic is created with the batch. If the batch is refused, it is
    not."""
    (home,) = _holders(log, b"taken")
    keys = (named(0, b"taken"), named(1, b"k", rule=REPLACE))
    assert log.apply(everything(*keys, topics=("orders", "bills"))).results[0].status.tolist() == [CONFLICT, FAILED]
    assert log.store.catalog.topic("bills") is None
    fresh = (named(0, b"free"), named(1, b"k", rule=EXTEND))
    assert log.apply(everything(*fresh, topics=("orders", "bills"))).results[0].status.tolist() == [NEW, NEW]
    assert log.store.catalog.topic("bills") is not None
    assert log.state(home) == state.PENDING


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


def test_a_command_whose_lines_change_holders_comes_back() -> None:
    """With its columns. A bound that is negative is refused, and so is a record that is none."""
    good = _mixed([7, 8, 9])
    assert good.changes is not None
    back = ScheduleAll.unpack(section_of(good))
    assert back.changes is not None
    assert back.messages.keys == good.messages.keys
    assert [column.tolist() for column in back.changes] == [column.tolist() for column in good.changes]
    longest = Changes(good.changes.holder, good.changes.doubtful, -good.changes.max_wait_ms, good.changes.due_only)
    with pytest.raises(EntryRefused, match="a longest wait of -86400000 ms"):
        ScheduleAll.unpack(section_of(ScheduleAll(good.messages, longest)))
    broken = bytearray(good.messages.blob)
    broken[-4] ^= 1
    with pytest.raises(EntryRefused, match="record padding"):
        ScheduleAll.unpack(section_of(ScheduleAll(replace(good.messages, blob=bytes(broken)), good.changes)))
