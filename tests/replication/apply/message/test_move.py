"""Messages rescheduled and redriven, and what holds of them wherever they are."""

import numpy as np

from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import LEASED, MISMATCH, SETTLED, UNKNOWN
from replication.apply.message.move import NOT_DEAD, REDRIVEN, RESCHEDULED
from replication.apply.message.running_sets import DOUBTFUL, NONE
from replication.apply.message.settle import ACKED, STALE
from replication.command.dispatch import DispatchState
from replication.command.unlink import Unlink
from storage.format.position import GONE
from storage.format.states import DEAD, FORWARDED, MOVED, PENDING
from tests.replication.applied_log import (
    HOUR_MS,
    T0,
    Log,
    ack,
    cancel,
    fail,
    lease,
    placed,
    redrive,
    reschedule,
    rise,
    schedule,
)

HOUR = T0 // HOUR_MS
LATE_MS = T0 + HOUR_MS + 60_001


def test_a_rescheduled_message_is_due_then_and_only_then(log: Log) -> None:
    """Later or earlier, with the asked due time and a revision of its own; the id stays."""
    (home,) = placed(log.apply(schedule(T0 + 2 * HOUR_MS)))
    for turn, due_ms in enumerate((T0 + 5 * HOUR_MS + 3, T0 + 7), start=2):
        result = log.apply(reschedule((home, due_ms))).results[0]
        place = log.place(home)
        found = (result.result.tolist(), result.due_ms.tolist(), result.revision.tolist(), result.position.tolist())
        assert found == ([RESCHEDULED], [due_ms], [turn], [place])
        record = log.record(place)
        assert (record.position, record.asked_due_ms, record.extension["revision"]) == (home, due_ms, turn)
        assert [int(column) for column in log.store.second(due_ms // 1000).position] == [place]
    assert len(log.store.second((T0 + 2 * HOUR_MS) // 1000).position) == 0
    assert len(log.store.second((T0 + 5 * HOUR_MS) // 1000).position) == 0


def test_what_a_reschedule_refuses(log: Log) -> None:
    """Leased while the lease runs, settled, unknown, another revision; each changes nothing."""
    a, b, c, d = placed(log.apply(schedule(T0, T0, T0, T0)))
    log.apply(lease(a, b))
    log.apply(ack((b, 1, 1)))
    wishes = reschedule(*((home, T0 + 9) for home in (a, b, 12345, c, d)), revision=(0, 0, 0, 2, 1))
    result = log.apply(wishes).results[0]
    assert result.result.tolist() == [LEASED, SETTLED, UNKNOWN, MISMATCH, RESCHEDULED]
    assert result.due_ms.tolist() == [0, 0, 0, 0, T0 + 9]
    assert result.revision.tolist() == [1, 0, 0, 1, 2]
    assert log.store.unit_count == 5
    assert log.apply(reschedule((a, T0 + 9)), now_ms=T0 + 30_000).results[0].result.tolist() == [RESCHEDULED]


def test_several_rows_of_one_message_go_one_after_the_other(log: Log) -> None:
    """The second sees what the first did: its revision, its place."""
    (home,) = placed(log.apply(schedule(T0)))
    wishes = reschedule((home, T0 + 9), (home, T0 + 8), (home, T0 + 7), (home, T0 + 6), revision=(1, 2, 2, 0))
    result = log.apply(wishes).results[0]
    assert result.result.tolist() == [RESCHEDULED, RESCHEDULED, MISMATCH, RESCHEDULED]
    assert result.revision.tolist() == [2, 3, 3, 4]
    assert log.record(log.place(home)).asked_due_ms == T0 + 6


def test_no_id_names_a_place(log: Log) -> None:
    """A position that a message was moved to is nobody's id: unknown to all that is asked by id."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(fail((home, 1, 1)))
    place = log.place(home)
    assert log.apply(reschedule((place, T0 + 10))).results[0].result.tolist() == [UNKNOWN]
    log.apply(lease(place, attempt=2))
    cancelled = log.apply(cancel(place), now_ms=T0 + 40_000).results[0]
    assert (cancelled.result.tolist(), cancelled.attempts.tolist()) == ([UNKNOWN], [0])
    assert log.apply(redrive(place)).results[0].tolist() == [NOT_DEAD]


def test_a_moved_message_is_cancelled_by_its_id_and_twice_the_same(log: Log) -> None:
    """The place ends, the home says so, and asking again gives the same answer, also in the same request."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), due_ms=T0 + HOUR_MS))
    place = log.place(home)
    first = log.apply(cancel(home, home)).results[0]
    second = log.apply(cancel(home, doubtful=True)).results[0]
    for result, rows in ((first, 2), (second, 1)):
        assert result.result.tolist() == [CANCELLED] * rows
        assert result.attempts.tolist() == [1] * rows
        assert result.prior.tolist() == [1] * rows
    assert log.apply(ack((place, 1, 2))).results[0].tolist() == [STALE]
    assert log.store.unsettled(HOUR) == log.store.unsettled(HOUR + 1) == 0


def test_a_cancel_that_names_a_revision(log: Log) -> None:
    """Only the revision that the client saw is cancelled; what is cancelled already is so for everyone."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(reschedule((home, T0 + 9)))
    assert log.apply(cancel(home, revision=1)).results[0].result.tolist() == [MISMATCH]
    assert log.apply(cancel(home, revision=2)).results[0].result.tolist() == [CANCELLED]
    assert log.apply(cancel(home, revision=1)).results[0].result.tolist() == [CANCELLED]


def test_a_reschedule_does_not_make_a_doubt_go_away(log: Log) -> None:
    """What a dead leader may have handed over before is in doubt after a reschedule, too, and no longer once it failed
    for all to see."""
    one, two, sure = placed(log.apply(schedule(T0, T0, T0)))
    log.apply(reschedule((one, T0 + 9), (two, T0 + 9), doubtful=True), reschedule((sure, T0 + 9)))
    log.apply(reschedule((one, T0 + 10)))
    log.apply(fail((log.place(two), 1, 1)))
    result = log.apply(cancel(one, two, sure)).results[0]
    assert result.prior.tolist() == [DOUBTFUL, 1, NONE]


def test_redriven_messages_begin_anew(log: Log) -> None:
    """Due again, with attempts that go on counting but no longer count; home open again, old place moved."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(fail((home, 1, 1), due_ms=T0 + HOUR_MS))
    died_at = log.place(home)
    log.apply(fail((died_at, 1, 2), dead=True))
    assert (log.state(home), log.state(died_at)) == (DEAD, DEAD)
    assert log.store.unsettled(HOUR) == 0
    assert log.apply(redrive(home, home, 99, due_ms=T0 + 5_000)).results[0].tolist() == [REDRIVEN, NOT_DEAD, NOT_DEAD]
    place = log.place(home)
    assert (log.state(home), log.state(died_at), log.state(place)) == (FORWARDED, MOVED, PENDING)
    assert log.store.unsettled(HOUR) == 2  # the home, and the new place in the same hour
    record = log.record(place)
    assert (record.attempt, record.asked_due_ms) == (2, T0 + 5_000)
    assert int(log.store.units(np.array([place], np.uint64))["attempt"][0]) == 2
    assert log.store.settled_at(home) is None
    assert log.apply(fail((died_at, 1, 2))).results[0].tolist() == [STALE]
    log.apply(lease(place, attempt=3))
    assert log.apply(ack((place, 1, 3))).results[0].tolist() == [ACKED]


def died_far_from_home(log: Log) -> int:
    """The home of a message that was rescheduled and died in an hour that is unlinked by LATE_MS."""
    (home,) = placed(log.apply(schedule(T0 + 50 * HOUR_MS)))
    log.apply(reschedule((home, T0)))
    log.apply(fail((log.place(home), 1, 1), dead=True))
    log.apply(DispatchState((T0 + HOUR_MS) // 1000, 0, 1))
    assert log.apply(Unlink(np.array([HOUR], np.int64)), now_ms=LATE_MS).results[0] == 1
    assert log.store.last_place(home) == GONE
    return home


def test_9042_a_message_is_gone_with_the_hour_where_it_died(log: Log) -> None:
    """Its home may stay for others. Redriven from there it had its first revision again, and got its second one twice;
    nor did that record know of a doubt."""
    rise(log)
    home = died_far_from_home(log)
    assert log.apply(redrive(home, due_ms=LATE_MS), now_ms=LATE_MS).results[0].tolist() == [NOT_DEAD]
    assert log.apply(cancel(home), now_ms=LATE_MS).results[0].result.tolist() == [SETTLED]
    assert log.state(home) == DEAD


def test_below_level_3_it_is_redriven_from_home(log: Log) -> None:
    """As older builds do: its body stands there too."""
    home = died_far_from_home(log)
    assert log.apply(redrive(home, due_ms=LATE_MS), now_ms=LATE_MS).results[0].tolist() == [REDRIVEN]
    place = log.place(home)
    assert place >> 40 == HOUR + 1
    assert log.record(place).body == b'"x"'
    assert log.record(place).attempt == 1
