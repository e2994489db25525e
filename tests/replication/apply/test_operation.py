"""Operations: the set is fixed at one entry, counts from then on, and each message is counted once."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import SETTLED, UNKNOWN
from replication.apply.message.running_sets import KNOWN, NONE
from replication.apply.message.settle import ACKED, INVALID, STALE
from replication.apply.operation import AGAIN, BEGUN, TOO_MANY, TOO_WIDE, UNKNOWN_TOPIC, Begun
from replication.command.dispatch import DispatchState, Promotion
from replication.command.operation import BeginOperation, OperationChunk
from replication.command.unlink import Unlink
from storage.format import states as state
from storage.format.array import U64
from storage.format.rows import Units
from storage.tables import operations
from storage.tables.operation_row import KEPT_MS, RUNNING_MAX, Operation, OperationWish, Point
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet
from tests.replication.applied_log import (
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    checkpoint,
    extend,
    fail,
    lease,
    placed,
    reschedule,
    risen_log,
    schedule,
)

BEGIN, FAR = 0, (T0 // HOUR_MS + 99) << 40  # positions

pytestmark = pytest.mark.usefixtures("newest_level")


def begin(
    topics: tuple[str, ...] | None = ("orders",),
    from_ms: int | None = None,
    to_ms: int | None = None,
    tag: str | None = None,
) -> BeginOperation:
    """A cancel of a window."""
    return BeginOperation(OperationWish(kind="cancel", topics=topics, from_ms=from_ms, to_ms=to_ms, tag=tag), 1)


def begun(log: Log, command: BeginOperation, **more: int) -> int:
    """Begin it; its number."""
    result = log.apply(command, **more).results[0]
    assert result == Begun(BEGUN, log.index)
    return log.index


def chunk(number: int, *place: int, begin: int = BEGIN, end: int = FAR, last: bool = True) -> OperationChunk:
    """These messages."""
    return OperationChunk(number, Point(0, begin), Point(0, end), last, np.array(place, np.uint64))


def known(log: Log, number: int) -> Operation:
    """The operation."""
    found = log.store.catalog.of(OPERATIONS).find(number)
    assert found is not None
    return found


def counts(log: Log, number: int) -> tuple[int, int, int]:
    """Changed, left because they were leased, ended otherwise."""
    progress = known(log, number).progress
    return progress.changed, progress.leased, progress.settled


def unlink(log: Log) -> None:
    """The first hour, long after it is over."""
    tick = T0 // 1000 + 3600
    log.apply(DispatchState(tick, 0, log.index))
    late_ms = T0 + 9 * HOUR_MS
    assert log.apply(Unlink(np.array([T0 // HOUR_MS], np.int64)), now_ms=late_ms).results == (1,)


def has(ours: RunningSet, at: U64, units: Units, tags_of: Callable[[U64], list[list[str]]]) -> list[bool]:
    """Whether the set has each of these."""
    found: list[bool] = ours.has(at, units["due_ms"], units["topic"], units["tags"], tags_of).tolist()
    return found


def test_a_window_of_a_topic_is_cancelled(log: Log) -> None:
    """From the begin on, to the end, and only in the window and the topic."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 2, T0 + 3, T0 + HOUR_MS)))
    (other,) = placed(log.apply(schedule(T0 + 2, topic="bills")))
    number = begun(log, begin(from_ms=T0 + 2, to_ms=T0 + HOUR_MS))
    assert known(log, number).works
    assert log.apply(chunk(number, *homes[1:3]), now_ms=T0 + 7).results == (True,)
    assert [log.state(home) for home in (*homes, other)] == [
        state.PENDING, state.CANCELLED, state.CANCELLED, state.PENDING, state.PENDING,
    ]  # fmt: skip
    assert counts(log, number) == (2, 0, 0)
    ended = known(log, number)
    assert ended.ended
    assert (ended.progress.log_index, ended.progress.at_ms, ended.row.hours) == (log.index, T0 + 7, b"")
    assert log.apply(chunk(number, homes[0], begin=FAR)).results == (False,)


def test_what_comes_later_is_of_no_set(log: Log) -> None:
    """Not what is scheduled or moved into the window after the entry; what is scheduled in that entry is."""
    (moved,) = placed(log.apply(schedule(T0 + 9 * HOUR_MS)))
    first = log.apply(schedule(T0 + 1), begin(to_ms=T0 + HOUR_MS))
    (old,), number = placed(first), log.index
    log.apply(reschedule((moved, T0 + 2)))
    (new,) = placed(log.apply(schedule(T0 + 3)))
    place = log.place(moved)
    (ours,) = log.store.catalog.of(OPERATIONS).running
    at = np.array([old, place, new], np.uint64)
    assert has(ours, at, log.store.units(at), lambda _: []) == [True, False, False]
    log.apply(chunk(number, old))
    assert counts(log, number) == (1, 0, 0)


def test_before_its_chunk_a_message_is_cancelled_already(log: Log) -> None:
    """To an ack of a hand-over that the log does not have, to an extend, a failure and a reschedule; a cancel says so
    too, and counts for the operation."""
    homes = placed(log.apply(schedule(*[T0 + 1] * 5)))
    number = begun(log, begin())
    results = log.apply(
        ack((homes[0], 1, 1)), fail((homes[1], 1, 1)), extend((homes[2], 1, 1, T0 + HOUR_MS)), cancel(homes[4]),
        reschedule((homes[3], T0 + HOUR_MS)),
    ).results  # fmt: skip
    assert [results[0].tolist(), results[1].tolist(), results[2].tolist()] == [[STALE], [STALE], [STALE]]
    assert (results[3].result.tolist(), results[3].prior.tolist()) == ([CANCELLED], [NONE])
    assert results[4].result.tolist() == [SETTLED]
    assert counts(log, number) == (1, 0, 0)
    log.apply(chunk(number, *homes))
    assert counts(log, number) == (5, 0, 0)
    assert [log.state(home) for home in homes] == [state.CANCELLED] * 5


def test_what_is_leased_goes_its_way(log: Log) -> None:
    """An ack ends it, a failure that would retry it cancels it, one that gives it up does; an extend is extended. What
    is leased when its chunk comes is left, and free again."""
    homes = placed(log.apply(schedule(*[T0 + 1] * 5)))
    log.apply(lease(*homes))
    number = begun(log, begin())
    results = log.apply(
        ack((homes[0], 1, 1)), fail((homes[1], 1, 1)), extend((homes[2], 1, 1, T0 + HOUR_MS)), cancel(homes[3])
    ).results
    assert [each.tolist() for each in results[:3]] == [[ACKED], [ACKED], [ACKED]]
    assert log.state(homes[1]) == state.CANCELLED
    assert known(log, number).progress.known == 1
    again = log.apply(fail((homes[1], 1, 1)), fail((homes[1], 1, 2)), cancel(homes[1])).results
    assert [again[0].tolist(), again[1].tolist(), again[2].prior.tolist()] == [[ACKED], [STALE], [KNOWN]]
    assert counts(log, number) == (1, 0, 1)
    assert log.apply(fail((homes[4], 1, 1), dead=True)).results[0].tolist() == [ACKED]
    assert counts(log, number) == (1, 0, 2)
    log.apply(chunk(number, *homes))
    assert counts(log, number) == (1, 2, 2)
    assert log.apply(fail((homes[3], 1, 1))).results[0].tolist() == [ACKED]
    assert log.state(log.place(homes[3])) == state.PENDING


def test_a_lease_that_has_ended_holds_nothing(log: Log) -> None:
    """By the stamp of the entry: an ack is stale then, and the chunk cancels."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 1)))
    log.apply(lease(*homes, end_ms=T0 + 50))
    number = begun(log, begin())
    assert log.apply(ack((homes[0], 1, 1)), now_ms=T0 + 60).results[0].tolist() == [STALE]
    log.apply(chunk(number, *homes), now_ms=T0 + 60)
    assert (counts(log, number), known(log, number).progress.known) == ((2, 0, 0), 2)


def test_a_moved_message_is_cancelled_where_it_stands(log: Log) -> None:
    """And its home says so."""
    (home,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), due_ms=T0 + 5))
    place = log.place(home)
    number = begun(log, begin())
    log.apply(chunk(number, place))
    assert (log.state(home), log.state(place)) == (state.CANCELLED, state.CANCELLED)
    assert known(log, number).progress.known == 1


def test_a_chunk_that_begins_elsewhere_is_void(log: Log) -> None:
    """So that one that a former leader proposed cannot count twice. Behind the point that is reached nothing is of the
    set."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 1, T0 + 2)))
    number = begun(log, begin())
    first = chunk(number, homes[0], end=homes[1], last=False)
    assert [log.apply(first).results, log.apply(first).results] == [(True,), (False,)]
    assert counts(log, number) == (1, 0, 0)
    (ours,) = log.store.catalog.of(OPERATIONS).running
    at = np.array(homes, np.uint64)
    assert has(ours, at, log.store.units(at), lambda _: []) == [False, True, True]
    assert log.apply(chunk(number + 1, homes[1])).results == (False,)
    assert log.apply(chunk(number, *homes[1:], begin=homes[1])).results == (True,)
    assert counts(log, number) == (3, 0, 0)


def test_a_chunk_of_an_hour_that_is_unlinked_meanwhile(log: Log) -> None:
    """Its messages had ended, each counted by what ended it."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + HOUR_MS)))
    number = begun(log, begin())
    log.apply(cancel(homes[0]))
    unlink(log)
    log.apply(chunk(number, *homes))
    assert (counts(log, number), known(log, number).ended) == ((2, 0, 0), True)


def test_receipts_of_an_unlinked_hour_are_invalid_while_one_runs(log: Log) -> None:
    """As they are without an operation: one of them stopped every node for good."""
    (gone,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(gone))
    log.apply(ack((gone, 1, 1)))
    unlink(log)
    log.apply(schedule(T0 + HOUR_MS))
    begun(log, begin())
    results = log.apply(
        ack((gone, 1, 1)), fail((gone, 1, 1)), extend((gone, 1, 1, T0 + HOUR_MS)), cancel(gone), reschedule((gone, T0))
    ).results
    assert [each.tolist() for each in results[:3]] == [[INVALID]] * 3
    assert [results[3].result.tolist(), results[4].result.tolist()] == [[UNKNOWN], [UNKNOWN]]


def test_the_oldest_of_two_counts(log: Log) -> None:
    """A message that both have is changed by one."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 2)))
    older, newer = begun(log, begin(to_ms=T0 + 2)), begun(log, begin(None))
    log.apply(chunk(newer, *homes))
    assert (counts(log, older), counts(log, newer)) == ((1, 0, 0), (1, 0, 0))
    log.apply(chunk(older, homes[0]))
    assert counts(log, older) == (1, 0, 0)


def test_by_tag(log: Log) -> None:
    """The tags in the record decide, where masks are alike."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 1)))
    begun(log, begin(tag="eu"))
    (ours,) = log.store.catalog.of(OPERATIONS).running
    at = np.array(homes, np.uint64)
    units = log.store.units(at)
    units["tags"] = np.uint64((1 << 64) - 1)
    read = {homes[0]: ["us"], homes[1]: ["eu"]}
    assert has(ours, at, units, lambda rows: [read[row] for row in rows.tolist()]) == [False, True]


def test_doubt_of_a_dead_leader_is_told(log: Log) -> None:
    """Messages that a former leader may have handed over count as unknown."""
    homes = placed(log.apply(schedule(T0 + 1)))
    log.apply(Promotion(T0 + 5), term=2)
    number = begun(log, begin(), term=2)
    log.apply(chunk(number, *homes), term=2)
    assert known(log, number).progress.unknown == 1


def test_what_cannot_begin(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is not there, a second one in an entry, one too many, one over too many hours."""
    log.apply(schedule(T0 + 1, T0 + HOUR_MS, T0 + 2 * HOUR_MS))
    assert log.apply(begin(("orders", "none"))).results[0] == Begun(UNKNOWN_TOPIC, 1)
    assert [result.result for result in log.apply(begin(), begin()).results] == [BEGUN, AGAIN]
    first = log.index
    for _ in range(RUNNING_MAX - 1):
        begun(log, begin())
    assert log.apply(begin()).results[0] == Begun(TOO_MANY, first)
    log.apply(chunk(first))
    monkeypatch.setattr("replication.apply.operation.HOURS_MAX", 2)
    assert log.apply(begin()).results[0] == Begun(TOO_WIDE, T0 // HOUR_MS + 1)
    begun(log, begin(to_ms=T0 + 2 * HOUR_MS))


def test_old_ones_are_forgotten(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they ended long ago, or too many are kept; when another begins."""
    monkeypatch.setattr(operations, "KEPT_MAX", 3)
    numbers = []
    for at in range(5):
        numbers.append(begun(log, begin(None), now_ms=T0 + at))
        log.apply(chunk(numbers[-1]), now_ms=T0 + at)
    table = log.store.catalog.of(OPERATIONS)
    assert [each.row.number for each in table.all()] == numbers[1:]
    later = begun(log, begin(None), now_ms=T0 + 4 + KEPT_MS)
    assert [each.row.number for each in table.all()] == [numbers[4], later]


def test_all_is_kept_over_a_start(tmp_path: Path) -> None:
    """The rows alone: the set and its counts are the same after a checkpoint and an open."""
    directory = tmp_path
    with risen_log(directory) as log:
        homes = placed(log.apply(schedule(T0 + 1, T0 + 2)))
        number = begun(log, begin(tag="eu", to_ms=T0 + HOUR_MS))
        log.apply(chunk(number, homes[0], end=homes[1], last=False))
        log.apply(begin(None))
        log.apply(chunk(log.index))
        before = log.store.catalog.of(OPERATIONS).all()
        checkpoint(log)
    again = Log(directory)
    table = again.store.catalog.of(OPERATIONS)
    assert table.all() == before
    (ours,) = table.running
    assert (ours.number, ours.hours.tolist(), ours.ends.tolist()) == (number, [T0 // HOUR_MS], [2])
    again.store.close()
