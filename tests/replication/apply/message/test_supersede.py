"""New messages that replace the holders of their keys, or extend them: what each does, and what makes it void."""

import numpy as np
import pytest

from replication.apply.message.message_location import IN_PROGRESS, LEASED
from replication.apply.message.running_sets import DOUBTFUL, KNOWN, NONE
from replication.apply.message.settle import ACKED, STALE
from replication.apply.message.supersede import VOID, Superseded
from replication.command.entry import EntryRefused, Kind, Section
from replication.command.operation import BeginOperation
from replication.command.schedule import Key, Schedule
from replication.command.supersede import Changes, Supersede
from storage.format import states as state
from storage.format.position import GONE
from storage.format.predicate import tags_mask
from storage.format.schedule_status import CONFLICT, EXTEND, EXTENDED, FAILED, NEW, REPLACE, REPLACED, REPLAYED
from storage.record.record import Drafts, encode_records
from storage.tables.operation_row import OperationWish
from tests.replication.applied_log import (
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    fail,
    key,
    lease,
    placed,
    reschedule,
    schedule,
)

pytestmark = pytest.mark.usefixtures("newest_level")
DAY_MS = 24 * HOUR_MS


def wishes(
    rule: int,
    *due_ms: int,
    holder: int | None = None,
    names: tuple[bytes, ...] = (),
    body: bytes = b'"new"',
    tag: bytes | None = None,
    max_wait_ms: int = DAY_MS,
    due_only: bool = False,
    doubtful: bool = False,
) -> Supersede:
    """Messages that replace or extend the holder of the key `k`, or of the keys `names`."""
    n = len(due_ms)
    due, keys = np.array(due_ms, np.int64), names or (b"k",) * n
    tags = None if tag is None else [(tag,)] * n
    random = np.arange(101, 101 + n, dtype=np.uint64)
    records = encode_records(Drafts([body] * n, due, random, keys=keys, tags=tags))
    masks = np.empty(0, np.uint64) if tag is None else np.full(n, tags_mask([tag]), np.uint64)
    messages = Schedule(
        ("orders",), due, records.size, records.blob, np.zeros(n, np.uint16), masks,
        tuple(Key(row, name, b"n" * 16, rule) for row, name in enumerate(keys)),
    )  # fmt: skip
    changes = Changes(
        np.full(n, GONE if holder is None else holder, np.uint64),
        np.full(n, doubtful, np.uint8),
        np.full(n, max_wait_ms, np.int64),
        np.full(n, due_only, np.uint8),
    )
    return Supersede(messages, changes)


def said(log: Log, command: Supersede) -> Superseded:
    """Apply the command. Return its answer."""
    result: Superseded = log.apply(command).results[0]
    return result


def holder(log: Log) -> int:
    """A message with the key, due in an hour."""
    (home,) = placed(log.apply(schedule(T0 + HOUR_MS, keys=(key(0, b"a"),))))
    return home


def due(log: Log, home: int) -> int:
    """Where the message stands, when it is due."""
    return int(log.store.units(np.array([log.place(home)], np.uint64))["due_ms"][0])


@pytest.mark.parametrize("rule", [REPLACE, EXTEND])
def test_nobody_holds_the_key(log: Log, rule: int) -> None:
    """The message is scheduled: never heard of, ended, or cancelled by a set that runs. It has the key from then on."""
    first = said(log, wishes(rule, T0 + 5))
    assert (first.status.tolist(), first.due_ms.tolist(), first.revision.tolist()) == ([NEW], [T0 + 5], [1])
    log.apply(cancel(int(first.position[0])))
    second = said(log, wishes(rule, T0 + 6, holder=int(first.position[0])))
    assert second.status.tolist() == [NEW]
    wish = OperationWish(kind="cancel", topics=("orders",))
    log.apply(BeginOperation(wish, 1))
    third = said(log, wishes(rule, T0 + 7, holder=int(second.position[0])))
    assert third.status.tolist() == [NEW]
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"n"),))).results[0].status.tolist() == [REPLAYED]
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"z"),))).results[0].position.tolist() == third.position.tolist()


def test_the_holder_is_replaced(log: Log) -> None:
    """It is cancelled, and the new one has the key, in one step."""
    home = holder(log)
    done = said(log, wishes(REPLACE, T0 + 5, holder=home))
    new = int(done.position[0])
    assert (done.status.tolist(), done.previous.tolist(), done.prior.tolist()) == ([REPLACED], [home], [NONE])
    assert (log.state(home), log.state(new), log.record(new).body) == (state.CANCELLED, state.PENDING, b'"new"')
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"a"),))).results[0].status.tolist() == [CONFLICT]
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"n"),))).results[0].position.tolist() == [new]


def test_what_is_known_of_the_one_before(log: Log) -> None:
    """Its hand-overs, and the leader's doubt."""
    home = holder(log)
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), due_ms=T0 + 50))
    done = said(log, wishes(REPLACE, T0 + 5, holder=home))
    assert (done.status.tolist(), done.attempts.tolist(), done.prior.tolist()) == ([REPLACED], [1], [KNOWN])
    assert log.state(home) == state.CANCELLED
    new = int(done.position[0])
    again = said(log, wishes(REPLACE, T0 + 5, holder=new, doubtful=True))
    assert (again.attempts.tolist(), again.prior.tolist()) == ([0], [DOUBTFUL])


def test_the_holder_is_extended(log: Log) -> None:
    """It keeps id and creation, gets the content and another due time, and the key answers to the newer request."""
    home = holder(log)
    done = said(log, wishes(EXTEND, T0 + 2 * HOUR_MS, holder=home, tag=b"eu"))
    assert (done.status.tolist(), done.position.tolist(), done.revision.tolist()) == ([EXTENDED], [home], [2])
    assert done.random.tolist() == [1], "its id stays"
    place = log.place(home)
    record, unit = log.record(place), log.store.units(np.array([place], np.uint64))
    assert (record.position, record.body, record.tags, record.key) == (home, b'"new"', ("eu",), b"k")
    assert record.extension["revision"] == 2
    assert int(unit["tags"][0]) == tags_mask([b"eu"])
    assert due(log, home) == T0 + 2 * HOUR_MS == done.due_ms[0] == record.asked_due_ms
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"n"),))).results[0].status.tolist() == [REPLAYED]
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"a"),))).results[0].status.tolist() == [CONFLICT]


def test_the_due_time_alone(log: Log) -> None:
    """Content and fingerprint stay those of the first request."""
    home = holder(log)
    assert said(log, wishes(EXTEND, T0 + 5, holder=home, tag=b"eu", due_only=True)).due_ms.tolist() == [T0 + 5]
    place = log.place(home)
    assert (log.record(place).body, log.record(place).tags, due(log, home)) == (b'"x"', (), T0 + 5)
    assert int(log.store.units(np.array([place], np.uint64))["tags"][0]) == 0
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"a"),))).results[0].status.tolist() == [REPLAYED]


@pytest.mark.parametrize(
    ("wanted", "max_wait_ms", "found"),
    [
        (T0 + 3 * HOUR_MS, 2 * HOUR_MS, T0 + 2 * HOUR_MS),
        (T0 + 3 * HOUR_MS, 4 * HOUR_MS, T0 + 3 * HOUR_MS),
        (T0 + 3 * HOUR_MS, 5_000, T0 + HOUR_MS),
        (T0 + 30, 5_000, T0 + 30),
    ],
    ids=["bound", "wanted", "bound makes it no earlier", "earlier by wish"],
)
def test_the_bound_of_a_debounce(log: Log, wanted: int, max_wait_ms: int, found: int) -> None:
    """At most so long after the creation; the bound alone makes no message due earlier than it is."""
    home = holder(log)
    assert said(log, wishes(EXTEND, wanted, holder=home, max_wait_ms=max_wait_ms)).due_ms.tolist() == [found]
    assert due(log, home) == found


def test_a_leased_holder(log: Log) -> None:
    """It is not replaced. An extend makes a new message, which has the key; the old one is retried as any other."""
    home = holder(log)
    log.apply(lease(home))
    refused = said(log, wishes(REPLACE, T0 + 5, holder=home))
    assert (refused.status.tolist(), refused.why.tolist()) == ([FAILED], [LEASED])
    done = said(log, wishes(EXTEND, T0 + 5, holder=home))
    new = int(done.position[0])
    assert (done.status.tolist(), new != home, log.state(home)) == ([NEW], True, state.LEASED)
    assert log.apply(fail((home, 1, 1), due_ms=T0 + 50)).results[0].tolist() == [ACKED]
    assert log.apply(schedule(T0 + 9, keys=(key(0, b"n"),))).results[0].position.tolist() == [new]


@pytest.mark.parametrize("rule", [REPLACE, EXTEND])
def test_another_holder_than_the_leader_holds(log: Log, rule: int) -> None:
    """Nothing is written: nobody was named, or one that has lost the key."""
    home = holder(log)
    before = log.store.unit_count
    for named in (None, home + 1):
        done = said(log, wishes(rule, T0 + 5, holder=named))
        assert (done.status.tolist(), done.why.tolist()) == ([FAILED], [VOID])
    assert (log.store.unit_count, log.state(home), due(log, home)) == (before, state.PENDING, T0 + HOUR_MS)


@pytest.mark.parametrize("rule", [REPLACE, EXTEND])
def test_one_that_an_operation_is_about_to_move(log: Log, rule: int) -> None:
    """It is refused, and the answer names the operation."""
    home = holder(log)
    log.apply(BeginOperation(OperationWish(kind="shift", topics=("orders",), by_ms=5), 1))
    done = said(log, wishes(rule, T0 + 5, holder=home))
    assert (done.status.tolist(), done.why.tolist()) == ([FAILED], [IN_PROGRESS])
    assert done.operation.tolist() == [log.index - 1]


def test_the_same_key_in_one_entry(log: Log) -> None:
    """One row after the other. What an earlier row scheduled nobody can have yet."""
    done = said(log, wishes(REPLACE, T0 + 5, T0 + 6, T0 + 7))
    assert done.status.tolist() == [NEW, REPLACED, REPLACED]
    assert done.previous.tolist()[1:] == done.position.tolist()[:2]
    assert [log.state(int(at)) for at in done.position] == [state.CANCELLED, state.CANCELLED, state.PENDING]
    again = said(log, wishes(EXTEND, T0 + 8, T0 + 9, holder=int(done.position[2])))
    assert (again.status.tolist(), again.revision.tolist()) == ([EXTENDED] * 2, [2, 3])
    assert due(log, int(done.position[2])) == T0 + 9
    both = said(log, wishes(EXTEND, T0 + 8, T0 + 9, T0 + 10, names=(b"a", b"b", b"a")))
    assert (both.status.tolist(), both.position.tolist()[2]) == ([NEW, NEW, EXTENDED], both.position.tolist()[0])


def test_a_doubt_is_of_the_named_holder_alone(log: Log) -> None:
    """Seed 410 of the simulator: an extend of a leased message in doubt made another one, and a replace of that one in
    the same entry took over the doubt."""
    home = holder(log)
    log.apply(lease(home))
    done = said(log, wishes(EXTEND, T0 + 5, T0 + 6, holder=home, doubtful=True))
    assert (done.status.tolist(), done.prior.tolist()) == ([NEW, EXTENDED], [NONE, NONE])
    both = wishes(REPLACE, T0 + 7, T0 + 8, holder=int(done.position[0]), doubtful=True)
    assert said(log, both).prior.tolist() == [DOUBTFUL, NONE]


def test_receipts_and_moves_of_the_holder(log: Log) -> None:
    """An old receipt is stale; one that was rescheduled is replaced where it stands."""
    home = holder(log)
    log.apply(lease(home, end_ms=T0 + 10))
    assert said(log, wishes(EXTEND, T0 + 60, holder=home)).status.tolist() == [NEW], (
        "its lease runs by the entry's time"
    )
    (moved,) = placed(log.apply(schedule(T0 + HOUR_MS, keys=(Key(0, b"m", b"m" * 16, 0),))))
    log.apply(reschedule((moved, T0 + 2 * HOUR_MS)))
    done = said(log, wishes(REPLACE, T0 + 60, holder=moved, names=(b"m",)))
    assert (done.status.tolist(), log.state(moved)) == ([REPLACED], state.CANCELLED)
    assert log.apply(ack((moved, 1, 1))).results[0].tolist() == [STALE]


def section_of(command: Supersede) -> Section:
    """Its section as an entry has it."""
    kind, rows, payload = command.pack()
    return Section(kind, rows, memoryview(b"".join(bytes(part) for part in payload)))


def test_a_command_whose_parts_do_not_fit_is_refused(log: Log) -> None:
    """A rule that changes no holder, a row without a key, a negative bound, a record that is none."""
    good = wishes(REPLACE, T0 + 5, T0 + 6)
    assert Supersede.unpack(section_of(good)).messages.keys == good.messages.keys
    broken = bytearray(good.messages.blob)
    broken[-4] ^= 1
    messages = good.messages
    for wrong, why in (
        (wishes(0, T0 + 5), "leaves its holder alone"),
        (wishes(EXTEND, T0 + 5, max_wait_ms=-1), "a longest wait of -1 ms"),
        (
            Supersede(
                Schedule(
                    messages.topics, messages.due_ms, messages.size, messages.blob, messages.topic, messages.tags,
                    messages.keys[:1],
                ),
                good.changes,
            ),
            "1 keys of 2 rows",
        ),
        (
            Supersede(
                Schedule(
                    messages.topics, messages.due_ms, messages.size, bytes(broken), messages.topic, messages.tags,
                    messages.keys,
                ),
                good.changes,
            ),
            "payload checksum",
        ),
    ):  # fmt: skip
        with pytest.raises(EntryRefused, match=why):
            Supersede.unpack(section_of(wrong))
    kind, rows, payload = messages.pack()
    section = Section(Kind(kind), rows, memoryview(b"".join(bytes(part) for part in payload)))
    with pytest.raises(EntryRefused, match="another kind"):
        Schedule.unpack(section)
