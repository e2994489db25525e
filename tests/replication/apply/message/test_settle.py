"""Leases extended, and what acks, leases and cancels do at places that are not home. Plain ones: test_machine.py."""

import numpy as np

from replication.apply.message.message_location import LEASED
from replication.apply.message.settle import ACKED, EXTENDED, INVALID, STALE
from storage.format.states import LEASED as LEASED_STATE
from storage.format.states import PENDING
from tests.replication.applied_log import (
    T0,
    Log,
    ack,
    cancel,
    extend,
    fail,
    lease,
    placed,
    raise_to,
    reschedule,
    schedule,
)


def lease_end(log: Log, position: int) -> int:
    """When the unit's lease ends."""
    return int(log.store.states(np.array([position], np.uint64)).lease_end_ms[0])


def test_a_lease_is_extended_by_the_hand_over_that_holds_it(log: Log) -> None:
    """Longer or shorter, also after its end while nobody newer came; an older hand-over is stale."""
    one, two = placed(log.apply(schedule(T0, T0)))
    log.apply(lease(one, two))
    log.apply(lease(two, attempt=2, end_ms=T0 + 60_000))
    wishes = extend((one, 1, 1, T0 + 90_000), (two, 1, 1, T0 + 90_000), (99, 1, 1, T0 + 90_000))
    assert log.apply(wishes).results[0].tolist() == [EXTENDED, STALE, INVALID]
    assert (lease_end(log, one), lease_end(log, two)) == (T0 + 90_000, T0 + 60_000)
    assert log.apply(cancel(one), now_ms=T0 + 89_999).results[0].result.tolist() == [LEASED]
    assert log.apply(extend((one, 1, 1, T0 + 95_000)), now_ms=T0 + 91_000).results[0].tolist() == [EXTENDED]
    assert log.apply(ack((one, 1, 1)), extend((one, 1, 1, T0 + 99_000))).results[1].tolist() == [STALE]


def test_an_extension_never_ends_a_lease_earlier(log: Log) -> None:
    """From level 3 on: a consumer that asks for less than it has keeps what it has. A hand-over that the log does not
    know has the end that it asks for, whatever the older one had. Before, the last word counts."""
    (before, one, two) = placed(log.apply(schedule(T0, T0, T0)))
    log.apply(lease(before, one, two, end_ms=T0 + 60_000))
    log.apply(extend((before, 1, 1, T0 + 20_000)))
    assert lease_end(log, before) == T0 + 20_000
    raise_to(log, 2)
    raise_to(log, 3)
    extended = log.apply(extend((one, 1, 1, T0 + 20_000), (one, 1, 1, T0 + 10_000), (two, 1, 2, T0 + 20_000))).results[
        0
    ]
    assert extended.tolist() == [EXTENDED, EXTENDED, EXTENDED]
    assert (lease_end(log, one), lease_end(log, two)) == (T0 + 60_000, T0 + 20_000)
    log.apply(extend((one, 1, 1, T0 + 90_000), (one, 1, 1, T0 + 80_000)))
    assert lease_end(log, one) == T0 + 90_000


def test_an_extended_lease_still_says_when_it_began(log: Log) -> None:
    """The newest hand-over is the one that was made, not the moment it was extended; one that the log never saw is
    dated by the extension."""
    known, lost = placed(log.apply(schedule(T0, T0)))
    log.apply(lease(known, at_ms=T0 + 3))
    log.apply(extend((known, 1, 1, T0 + 90_000), (lost, 1, 1, T0 + 90_000)), now_ms=T0 + 500, term=2)
    newest = log.store.newest(np.array([known, lost], np.uint64))
    assert newest["at_ms"].tolist() == [T0 + 3, T0 + 500]
    assert newest["term"].tolist() == [1, 1]
    assert (log.state(lost), lease_end(log, lost)) == (LEASED_STATE, T0 + 90_000)


def test_several_rows_of_one_lease(log: Log) -> None:
    """Of one hand-over the last row's end counts; a newer hand-over's row makes the older one's stale."""
    (one,) = placed(log.apply(schedule(T0)))
    log.apply(lease(one))
    wishes = extend((one, 1, 1, T0 + 70_000), (one, 1, 1, T0 + 80_000))
    assert log.apply(wishes).results[0].tolist() == [EXTENDED, EXTENDED]
    assert lease_end(log, one) == T0 + 80_000
    wishes = extend((one, 1, 2, T0 + 50_000), (one, 1, 1, T0 + 90_000))
    assert log.apply(wishes).results[0].tolist() == [EXTENDED, STALE]
    assert lease_end(log, one) == T0 + 50_000


def test_a_place_is_leased_and_acked_as_any_unit(log: Log) -> None:
    """Leases and acks at the new place; a Lease for the old place, or for a home whose message left, is a no-op."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(reschedule((home, T0 + 9)))
    old = log.place(home)
    log.apply(reschedule((home, T0 + 19)))
    place = log.place(home)
    assert log.apply(lease(home, old, place, attempt=1)).results[0].tolist() == [0, 0, 1]
    assert log.apply(lease(place, attempt=1), term=2).results[0].tolist() == [1]
    assert log.apply(ack((place, 1, 1), (old, 2, 1), (home, 2, 1))).results[0].tolist() == [STALE, STALE, STALE]
    assert log.apply(ack((place, 2, 1), (place, 2, 1))).results[0].tolist() == [ACKED, ACKED]


def test_a_lease_decided_before_the_move_does_not_reach_the_new_place(log: Log) -> None:
    """A hand-over whose Lease comes after the move it raced with changes nothing: the message waits where it is."""
    (home,) = placed(log.apply(schedule(T0)))
    log.apply(fail((home, 1, 1)))
    log.apply(lease(home, attempt=2))
    assert log.state(log.place(home)) == PENDING
