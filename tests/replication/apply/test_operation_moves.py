"""Operations that move: open messages to another due time, ended ones back. What others do with members meanwhile."""

import numpy as np
import pytest

from replication.apply.message.message_location import FREE, IN_PROGRESS, LEASED, SETTLED
from replication.apply.message.settle import ACKED, STALE
from replication.apply.operation import BEGUN, CHANGED, ENDED, IS_CANCEL, MEETS, TOO_WIDE, UNKNOWN, Begun
from replication.command.dispatch import Promotion
from replication.command.operation import BeginOperation, ChangeOperation, OperationChunk
from replication.command.topic import DropTopic
from storage.format import states as state
from storage.format.rows import CODE_RESENT
from storage.tables.operation_row import ABORTED, FIRST, LAST, PAUSED, RUNNING, Operation, OperationWish, Point
from storage.tables.registry import OPERATIONS
from tests.replication.applied_log import (
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    extend,
    fail,
    key,
    lease,
    placed,
    redrive,
    reschedule,
    schedule,
)

pytestmark = pytest.mark.usefixtures("newest_level")
NOW = T0 + 20


def begin(
    log: Log,
    kind: str,
    *,
    topics: tuple[str, ...] | None = ("orders",),
    from_ms: int | None = None,
    to_ms: int | None = None,
    by_ms: int | None = None,
    to_due_ms: int | None = None,
) -> Begun:
    """Try to begin one."""
    result: Begun = log.apply(
        BeginOperation(
            OperationWish(kind=kind, topics=topics, from_ms=from_ms, to_ms=to_ms, by_ms=by_ms, to_due_ms=to_due_ms), 1
        )
    ).results[0]  # fmt: skip
    return result


def begun(log: Log, kind: str, by_ms: int | None = None, to_due_ms: int | None = None) -> int:
    """Begin one of all of the topic; its number."""
    assert begin(log, kind, by_ms=by_ms, to_due_ms=to_due_ms) == Begun(BEGUN, log.index)
    return log.index


def known(log: Log, number: int) -> Operation:
    """The operation."""
    found = log.store.catalog.of(OPERATIONS).find(number)
    assert found is not None
    return found


def chunk(log: Log, number: int, *place: int, end: Point = LAST, now_ms: int = NOW) -> bool:
    """Apply these as its next messages."""
    command = OperationChunk(number, known(log, number).progress.reached, end, end == LAST, np.array(place, np.uint64))
    result: bool = log.apply(command, now_ms=now_ms).results[0]
    return result


def counts(log: Log, number: int) -> tuple[int, int, int, int, int]:
    """Changed, leased, settled, gone, key taken."""
    now = known(log, number).progress
    return now.changed, now.leased, now.settled, now.gone, now.key_taken


def due(log: Log, home: int) -> int:
    """The due time of a message where it stands."""
    return int(log.store.units(np.array([log.place(home)], np.uint64))["due_ms"][0])


@pytest.mark.parametrize(
    ("kind", "by_ms", "to_due_ms", "wanted"),
    [
        ("shift", 5_000, None, [T0 + 5_100, T0 + 2 * HOUR_MS + 5_000]),
        ("shift", -HOUR_MS, None, [NOW, T0 + HOUR_MS]),
        ("shift", None, T0 + 7_000, [T0 + 7_000, T0 + 7_000]),
        ("shift", None, T0 - 7_000, [NOW, NOW]),
        ("release", None, None, [NOW, NOW]),
    ],
)
def test_open_messages_get_another_due_time(
    log: Log, kind: str, by_ms: int | None, to_due_ms: int | None, wanted: list[int]
) -> None:
    """Never before now. The record has it as the asked one, and the revision counts on."""
    homes = placed(log.apply(schedule(T0 + 100, T0 + 2 * HOUR_MS)))
    number = begun(log, kind, by_ms, to_due_ms)
    assert chunk(log, number, *homes)
    assert [due(log, home) for home in homes] == wanted
    records = [log.record(log.place(home)) for home in homes]
    assert [record.asked_due_ms for record in records] == wanted
    assert [record.extension["revision"] for record in records] == [2, 2]
    assert (counts(log, number), known(log, number).progress.none, known(log, number).ended) == (
        (2, 0, 0, 0, 0),
        2,
        True,
    )
    assert not chunk(log, number, *homes), "it has ended"


def test_a_moved_message_is_of_the_set_no_more(log: Log) -> None:
    """Also if its new due time is in the window, behind the point that is reached."""
    (home,) = placed(log.apply(schedule(T0 + 100)))
    later = placed(log.apply(schedule(T0 + 900)))
    number = begun(log, "shift", 500)
    assert chunk(log, number, home, end=Point(T0 + 900, later[0]))
    (ours,) = log.store.catalog.of(OPERATIONS).of_open
    at = np.array([log.place(home), *later], np.uint64)
    units = log.store.units(at)
    assert units["due_ms"].tolist() == [T0 + 600, T0 + 900]
    log.apply(reschedule((home, T0 + 950)))
    at[0] = log.place(home)
    units = log.store.units(at)
    assert ours.may_have(at, units["due_ms"], units["topic"], units["tags"]).tolist() == [False, True]


def test_the_point_is_a_due_time_and_a_place(log: Log) -> None:
    """Behind it are later ones, and of the same time those that stand behind."""
    homes = placed(log.apply(schedule(T0 + 5, T0 + 3, T0 + 5, T0 + 9)))
    number = begun(log, "shift", 500)
    assert chunk(log, number, homes[1], homes[0], end=Point(T0 + 5, homes[2]))
    (ours,) = log.store.catalog.of(OPERATIONS).of_open
    at = np.array(homes, np.uint64)
    units = log.store.units(at)
    assert ours.may_have(at, units["due_ms"], units["topic"], units["tags"]).tolist() == [False, False, True, True]


def test_members_meanwhile(log: Log) -> None:
    """A reschedule is refused; a cancel cancels; an ack ends; a failure goes its retry's way; an extend is extended.
    What is leased when its chunk comes is left. Each is counted."""
    homes = placed(log.apply(schedule(*[T0 + 1] * 7)))
    log.apply(lease(*homes[2:6]))
    number = begun(log, "shift", 60_000)
    moved = log.apply(reschedule((homes[0], T0 + HOUR_MS), (homes[2], T0 + HOUR_MS))).results[0]
    cancelled = log.apply(cancel(homes[1], homes[2])).results[0]
    assert (moved.result.tolist(), cancelled.result.tolist()) == ([IN_PROGRESS, LEASED], [FREE, LEASED])
    for command in (
        ack((homes[3], 1, 1), (homes[6], 1, 1)),
        fail((homes[4], 1, 1), due_ms=T0 + 5),
        extend((homes[5], 1, 1, T0 + HOUR_MS)),
    ):
        assert set(log.apply(command).results[0].tolist()) == {ACKED}
    assert counts(log, number) == (0, 1, 3, 0, 0)
    assert chunk(log, number, *homes)
    assert counts(log, number) == (1, 3, 3, 0, 0)
    assert [log.state(log.place(home)) for home in homes] == [
        state.PENDING, state.CANCELLED, state.LEASED, state.DELIVERED, state.PENDING, state.LEASED, state.DELIVERED,
    ]  # fmt: skip
    assert log.apply(reschedule((homes[0], T0 + HOUR_MS))).results[0].result.tolist() == [FREE]


def test_a_lease_that_has_ended_holds_nothing(log: Log) -> None:
    """The message moves, and an ack of the old hand-over is stale from then on."""
    (home,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(home, end_ms=T0 + 10))
    number = begun(log, "shift", 60_000)
    assert chunk(log, number, home)
    assert (counts(log, number), known(log, number).progress.known) == ((1, 0, 0, 0, 0), 1)
    assert log.apply(ack((home, 1, 1))).results[0].tolist() == [STALE]


def test_a_later_cancel_takes_what_it_matches(log: Log) -> None:
    """From its entry on, whichever comes first, its chunk or that of the shift. The shift counts it as settled."""
    homes = placed(log.apply(schedule(*[T0 + 1] * 4)))
    shift = begun(log, "shift", 60_000)
    assert begin(log, "cancel", to_ms=T0 + HOUR_MS).result == BEGUN
    stop = log.index
    assert log.apply(reschedule((homes[0], T0 + 5))).results[0].result.tolist() == [SETTLED]
    assert chunk(log, shift, *homes[:2], end=Point(T0 + 1, homes[2]))
    assert (counts(log, shift), counts(log, stop)) == ((0, 0, 2, 0, 0), (0, 0, 0, 0, 0))
    log.apply(OperationChunk(stop, FIRST, LAST, True, np.array(homes, np.uint64)), now_ms=NOW)
    assert (counts(log, shift), counts(log, stop)) == ((0, 0, 4, 0, 0), (4, 0, 0, 0, 0))
    assert chunk(log, shift, *homes[2:])
    assert counts(log, shift) == (0, 0, 4, 0, 0)
    assert [log.state(home) for home in homes] == [state.CANCELLED] * 4


def test_two_that_meet(log: Log) -> None:
    """Only a cancel may begin over the set of another; the answer names it."""
    log.apply(schedule(T0 + 1), schedule(T0 + 2, topic="bills"))
    number = begin(log, "shift", from_ms=T0, to_ms=T0 + 10, by_ms=5).value
    assert begin(log, "release") == Begun(MEETS, number)
    assert begin(log, "redrive", topics=None, from_ms=T0 + 9) == Begun(MEETS, number)
    assert begin(log, "release", topics=("bills",)).result == BEGUN
    assert begin(log, "release", from_ms=T0 + 10).result == BEGUN
    assert begin(log, "release", to_ms=T0).result == BEGUN
    assert begin(log, "cancel").result == BEGUN


def test_dead_messages_are_redriven(log: Log) -> None:
    """At home and elsewhere. Attempts count anew. One that came back meanwhile, or whose topic is gone, is gone."""
    homes = placed(log.apply(schedule(*[T0 + 1] * 3)))
    (lost,) = placed(log.apply(schedule(T0 + 1, topic="bills")))
    log.apply(lease(*homes, lost))
    log.apply(fail((homes[1], 1, 1), due_ms=T0 + 2))
    away = log.place(homes[1])
    log.apply(lease(away, attempt=2))
    log.apply(fail((homes[0], 1, 1), (away, 1, 2), (homes[2], 1, 1), (lost, 1, 1), dead=True))
    assert begin(log, "redrive", topics=None).result == BEGUN
    number = log.index
    log.apply(redrive(homes[2]))
    assert log.apply(DropTopic("default", "bills", log.index + 1, log.store.unit_count, 0)).results[0] == 0
    assert chunk(log, number, homes[0], away, homes[2], lost)
    assert counts(log, number) == (2, 0, 0, 2, 0)
    assert known(log, number).progress.known == 2
    assert [due(log, home) for home in homes[:2]] == [NOW, NOW]
    assert [log.record(log.place(home)).attempt for home in homes[:2]] == [1, 2]
    assert log.apply(fail((homes[0], 1, 1), (away, 1, 2), dead=True)).results[0].tolist() == [STALE, STALE]


def test_delivered_messages_are_sent_again(log: Log) -> None:
    """The receipt that settled one stays acked. One whose key a newer message has is left."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 1, keys=(key(1, b"f"),))))
    log.apply(lease(*homes))
    log.apply(ack((homes[0], 1, 1), (homes[1], 1, 1)))
    late_ms = T0 + 70_000
    (holder,) = placed(log.apply(schedule(late_ms, keys=(key(0, b"g"),)), now_ms=late_ms))
    number = begun(log, "resend")
    assert chunk(log, number, *homes, now_ms=late_ms)
    assert counts(log, number) == (1, 0, 0, 0, 1)
    place = log.place(homes[0])
    assert (log.state(place), log.state(homes[1]), log.state(holder)) == (state.PENDING, state.DELIVERED, state.PENDING)
    newest = log.store.newest(np.array(homes[:1], np.uint64))
    assert (newest["what"][0], newest["code"][0]) == (state.FORWARDED, CODE_RESENT)
    again = log.apply(ack((homes[0], 1, 1), (homes[0], 1, 2), (homes[1], 1, 1))).results[0].tolist()
    assert again == [ACKED, STALE, ACKED]
    log.apply(lease(place, attempt=2, end_ms=late_ms + 1_000, at_ms=late_ms), now_ms=late_ms)
    assert log.apply(ack((place, 1, 2))).results[0].tolist() == [ACKED]
    assert log.state(homes[0]) == state.DELIVERED


def test_paused_resumed_and_aborted(log: Log) -> None:
    """A paused one keeps its set, and its chunks are void. An aborted one has ended where it stands."""
    homes = placed(log.apply(schedule(T0 + 1, T0 + 2)))
    number = begun(log, "shift", 60_000)

    def change(state: int, paused_ms: int = 0, now_ms: int = NOW) -> int:
        result: int = log.apply(ChangeOperation(number, state, paused_ms), now_ms=now_ms).results[0]
        return result

    assert change(PAUSED) == CHANGED
    assert not chunk(log, number, *homes)
    assert log.apply(reschedule((homes[0], T0 + 5))).results[0].result.tolist() == [IN_PROGRESS]
    assert change(PAUSED, now_ms=NOW + 5) == CHANGED, "again: the time counts anew"
    assert change(RUNNING, NOW) == CHANGED, "of the pause before: void"
    assert (known(log, number).progress.state, known(log, number).progress.paused_ms) == (PAUSED, NOW + 5)
    assert change(RUNNING, NOW + 5) == CHANGED
    assert chunk(log, number, homes[0], end=Point(T0 + 2, homes[1]))
    assert change(ABORTED) == CHANGED
    assert [change(each) for each in (PAUSED, RUNNING, ABORTED)] == [ENDED] * 3
    assert (known(log, number).ended, counts(log, number)) == (True, (1, 0, 0, 0, 0))
    assert log.apply(reschedule((homes[1], T0 + 5))).results[0].result.tolist() == [FREE]
    assert log.apply(ChangeOperation(number + 99, PAUSED)).results[0] == UNKNOWN
    assert begin(log, "cancel").result == BEGUN
    assert log.apply(ChangeOperation(log.index, PAUSED)).results[0] == IS_CANCEL


def test_a_receipt_that_settled_its_message_stays_acked(log: Log) -> None:
    """After the resend, and after the second hand-over was leased, retried and acked. Any other receipt is stale."""
    (home,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(home))
    log.apply(ack((home, 1, 1)))
    assert chunk(log, begun(log, "resend"), home)
    said = [log.apply(ack((home, 1, 1))).results[0].tolist()]
    place = log.place(home)
    log.apply(lease(place, attempt=2, end_ms=T0 + 90_000, at_ms=NOW), now_ms=NOW)
    said += [log.apply(ack((home, 1, 1))).results[0].tolist()]
    log.apply(fail((place, 1, 2), due_ms=NOW + 5), now_ms=NOW)
    said += [log.apply(ack((home, 1, 1))).results[0].tolist()]
    again = log.place(home)
    log.apply(lease(again, attempt=3, end_ms=T0 + 90_000, at_ms=NOW), now_ms=NOW)
    log.apply(ack((again, 1, 3)), now_ms=NOW)
    said += [log.apply(ack((home, 1, 1))).results[0].tolist()]
    assert said == [[ACKED]] * 4
    assert log.apply(ack((home, 1, 2), (place, 1, 2), (place, 1, 1))).results[0].tolist() == [STALE] * 3


def test_it_stays_acked_though_the_resend_is_forgotten(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is once 1,000 later operations have ended."""
    monkeypatch.setattr("storage.tables.operations.KEPT_MAX", 2)
    (home,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(home))
    log.apply(ack((home, 1, 1)))
    resend = begun(log, "resend")
    assert chunk(log, resend, home)
    for _ in range(3):
        assert chunk(log, begin(log, "cancel", to_ms=T0).value)
    assert log.store.catalog.of(OPERATIONS).find(resend) is None
    assert log.apply(ack((home, 1, 1))).results[0].tolist() == [ACKED]


def test_redriven_alone_and_dead_again_before_its_chunk(log: Log) -> None:
    """The chunk names the place where the message died first, and leaves the message alone. It once made a second unit
    of the message, beside the dead one."""
    (home,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), dead=True))
    number = begun(log, "redrive")
    log.apply(redrive(home))
    away = log.place(home)
    log.apply(lease(away, attempt=2))
    log.apply(fail((away, 1, 2), dead=True))
    assert chunk(log, number, home)
    assert counts(log, number) == (0, 0, 0, 1, 0)
    assert (log.state(home), log.state(away)) == (state.DEAD, state.DEAD)
    again = begun(log, "redrive")
    assert chunk(log, again, away)
    assert (counts(log, again), log.state(log.place(home))) == ((1, 0, 0, 0, 0), state.PENDING)


def test_what_ended_while_a_leader_began_is_in_doubt(log: Log) -> None:
    """Seed 205 of the simulator: a leader died after a hand-over that nobody recorded. The message died under the next
    one, whose time of the doubt was still to come, and was redriven. A cancel then said that all was known."""
    (home,) = placed(log.apply(schedule(T0 + 1)))
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), due_ms=T0 + 2))
    place = log.place(home)
    log.apply(Promotion(NOW + 500), term=2)
    log.apply(lease(place, attempt=2), term=2, now_ms=NOW)
    log.apply(fail((place, 2, 2), dead=True), term=2, now_ms=NOW)
    number = begun(log, "redrive")
    assert chunk(log, number, place)
    now = known(log, number).progress
    assert (now.known, now.unknown) == (0, 1)
    assert "doubtful" in log.record(log.place(home)).extension


def test_no_shift_goes_past_the_latest_time(log: Log) -> None:
    """Which its leader took from the longest delay."""
    (home,) = placed(log.apply(schedule(T0 + 100)))
    command = BeginOperation(OperationWish(kind="shift", by_ms=HOUR_MS, latest_ms=T0 + 5_000), 1)
    assert log.apply(command).results[0].result == BEGUN
    assert chunk(log, log.index, home)
    assert due(log, home) == T0 + 5_000


def test_one_that_is_due_past_the_latest_time_comes_no_nearer(log: Log) -> None:
    """By a shift that moves messages away, once the longest delay was made shorter."""
    (home,) = placed(log.apply(schedule(T0 + HOUR_MS)))
    command = BeginOperation(OperationWish(kind="shift", by_ms=HOUR_MS, latest_ms=T0 + 5_000), 1)
    assert log.apply(command).results[0].result == BEGUN
    assert chunk(log, log.index, home)
    assert due(log, home) == T0 + HOUR_MS


def test_the_last_to_end_is_the_last_to_be_forgotten(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old one that ended late is kept before newer ones that ended earlier."""
    monkeypatch.setattr("storage.tables.operations.KEPT_MAX", 2)
    log.apply(schedule(T0 + 1), schedule(T0 + 2, topic="bills"))
    first = begun(log, "shift", 60_000)
    others = []
    for _ in range(3):
        others.append(begin(log, "cancel", topics=("bills",)).value)
        log.apply(OperationChunk(others[-1], FIRST, LAST, True, np.empty(0, np.uint64)))
    assert chunk(log, first, now_ms=NOW)
    assert begin(log, "cancel", topics=("bills",)).result == BEGUN
    kept = [each.row.number for each in log.store.catalog.of(OPERATIONS).all()]
    assert kept == [first, others[-1], log.index]


def test_too_many_hours_of_ended_messages(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is the first of the last hours that fit: only a later begin helps."""
    monkeypatch.setattr("replication.apply.operation.HOURS_MAX", 2)
    homes = placed(log.apply(schedule(*(T0 + hour * HOUR_MS for hour in range(3)))))
    log.apply(lease(*homes, end_ms=T0 + 9 * HOUR_MS))
    log.apply(ack(*((home, 1, 1) for home in homes)))
    told = begin(log, "resend")
    assert told == Begun(TOO_WIDE, T0 // HOUR_MS + 1)
    assert begin(log, "resend", from_ms=told.value * HOUR_MS).result == BEGUN
