"""Leases taken back: what was never handed over is pending again, as if it had not been leased."""

from dataclasses import replace

import numpy as np

from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import LEASED
from replication.apply.message.running_sets import KNOWN, NONE
from replication.apply.message.settle import ACKED, STALE
from replication.command.topic import PutTopic
from storage.format.pieces import at_once
from storage.format.rows import PLANNED
from storage.format.states import LEASED as LEASED_STATE
from storage.format.states import PENDING, RELEASED
from tests.replication.applied_log import T0, Log, ack, cancel, fail, lease, placed, release, reschedule, schedule


def at(log: Log, position: int) -> tuple[int, int, int]:
    """State, term and attempt of a unit."""
    states = log.store.states(np.array([position], np.uint64))
    return int(states.state[0]), int(states.term[0]), int(states.attempt[0])


def test_a_released_unit_is_as_before_its_lease(log: Log) -> None:
    """Pending, with the attempts that were made; the number given back is taken by the next hand-over."""
    (one,) = placed(log.apply(schedule(T0)))
    log.apply(lease(one))
    assert log.apply(release((one, 1, 1))).results[0].tolist() == [1]
    assert at(log, one) == (PENDING, 0, 0)
    assert log.apply(lease(one), now_ms=T0 + 5).results[0].tolist() == [1]
    assert at(log, one) == (LEASED_STATE, 1, 1)
    history = at_once(log.store.history(one))
    assert history["what"].tolist() == [LEASED_STATE, RELEASED, LEASED_STATE]


def test_attempts_that_were_made_stay(log: Log) -> None:
    """After a second lease is taken back the first hand-over is the newest again, and its ack counts."""
    (one,) = placed(log.apply(schedule(T0)))
    log.apply(lease(one, end_ms=T0 + 10))
    log.apply(lease(one, attempt=2), term=2, now_ms=T0 + 20)
    assert log.apply(ack((one, 1, 1)), term=2).results[0].tolist() == [STALE]
    log.apply(release((one, 2, 2)), term=2)
    assert at(log, one) == (PENDING, 1, 1)
    assert log.apply(ack((one, 1, 1)), term=2).results[0].tolist() == [ACKED]


def test_of_a_moved_message_the_attempts_before_count_on(log: Log) -> None:
    """At its new place nothing was leased before; what was made elsewhere its unit says."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(lease(home))
    log.apply(fail((home, 1, 1), due_ms=T0 + 100))
    place = log.place(home)
    log.apply(lease(place, attempt=2))
    log.apply(release((place, 1, 2)))
    assert at(log, place) == (PENDING, 0, 0)
    cancelled = log.apply(cancel(home)).results[0]
    assert (cancelled.result.tolist(), cancelled.attempts.tolist(), cancelled.prior.tolist()) == (
        [CANCELLED],
        [1],
        [KNOWN],
    )


def test_only_the_newest_lease_of_an_open_unit_is_released(log: Log) -> None:
    """Not another attempt, another term, a settled, moved or unknown unit; of several rows the first."""
    one, two, three = placed(log.apply(schedule(T0, T0, T0)))
    log.apply(lease(one, two, three))
    log.apply(ack((two, 1, 1)), reschedule((three, T0 + 9)))
    rows = ((one, 1, 2), (one, 2, 1), (two, 1, 1), (7_777, 1, 1), (one, 1, 1), (one, 1, 1))
    assert log.apply(release(*rows)).results[0].tolist() == [0, 0, 0, 0, 1, 0]
    assert log.apply(release((one, 1, 1))).results[0].tolist() == [0]


def test_a_cancel_in_the_entry_of_the_release_finds_it_free(log: Log) -> None:
    """Leased in one entry, released and cancelled in the next: nothing was made before, and the log knows it."""
    one, two = placed(log.apply(schedule(T0, T0)))
    log.apply(lease(one, two))
    applied = log.apply(cancel(one, two), release((one, 1, 1)))
    cancelled = next(result for result in applied.results if hasattr(result, "prior"))
    assert cancelled.result.tolist() == [CANCELLED, LEASED]
    assert cancelled.attempts.tolist()[0] == 0
    assert cancelled.prior.tolist()[0] == NONE


def test_leases_and_releases_of_another_term_are_void(log: Log) -> None:
    """An entry that a later leader completed says what a dispatcher meant to do that is gone."""
    (one,) = placed(log.apply(schedule(T0)))
    assert log.apply(lease(one), term=1, entry_term=2).results == (None,)
    log.apply(lease(one))
    assert log.apply(release((one, 1, 1)), term=1, entry_term=2).results == (None,)
    assert at(log, one) == (LEASED_STATE, 1, 1)


def test_a_planned_lease_says_so(log: Log) -> None:
    """Its record bears the code, so that a new leader knows the hand-over may not have been begun."""
    one, two = placed(log.apply(schedule(T0 + 80, T0)))
    log.apply(replace(lease(one, at_ms=T0 + 80), planned=True), lease(two))
    newest = log.store.newest(np.array([one, two], np.uint64))
    assert newest["code"].tolist() == [PLANNED, 0]
    assert newest["at_ms"].tolist() == [T0 + 80, T0]


def test_a_topic_knows_since_when_it_is_strict(log: Log) -> None:
    """From the change on; other changes leave it, fast takes it away, and a client's word for it does not count."""

    def put(now_ms: int, **settings: object) -> object:
        log.apply(PutTopic("default", "orders", settings, replace=False), now_ms=now_ms)
        topic = log.store.catalog.topic("orders")
        assert topic is not None
        return topic.settings.get("strict_since_ms")

    assert put(T0) is None
    assert put(T0 + 1, handover="strict") == T0 + 1
    assert put(T0 + 2, paused=True, strict_since_ms=7) == T0 + 1
    assert put(T0 + 3, handover="fast") is None
    assert put(T0 + 4, handover="strict") == T0 + 4
