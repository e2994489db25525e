"""A new state is a row: what commands may do with a unit in it follows from its answers."""

from collections.abc import Iterator

import numpy as np
import pytest

from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import HELD
from replication.apply.message.settle import ACKED, STALE
from replication.command.dispatch import DispatchState
from replication.command.unlink import Unlink
from storage.format.batches import SettleBatch
from storage.format.schedule_status import REPLAYED
from storage.format.states import CANCELLED as CANCELLED_STATE
from storage.format.states import DELIVERED, LEASED, PENDING
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
    reschedule,
    schedule,
)
from tests.storage.new_state import COMMITTED, HALF, added


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """Both states are there."""
    with added(HALF, COMMITTED):
        yield


@pytest.fixture
def half(log: Log) -> int:
    """A message with a key that is half."""
    (position,) = placed(log.apply(schedule(T0 + 1_000, keys=(key(0, b"f"),))))
    say(log, position, HALF.number)
    return position


def say(log: Log, position: int, what: int) -> None:
    """As the command of such a state would."""
    log.store.settle(SettleBatch.of([position], what=what, at_ms=T0))


def test_what_is_not_open_is_not_handed_over(log: Log, half: int) -> None:
    """A Lease is no ground to hand it over, and who names one of before is told that it does not count any more."""
    assert log.apply(lease(half)).results[0].tolist() == [0]
    assert log.apply(ack((half, 1, 1))).results[0].tolist() == [STALE]
    assert log.apply(fail((half, 1, 1))).results[0].tolist() == [STALE]
    assert log.apply(extend((half, 1, 1, T0 + 60_000))).results[0].tolist() == [STALE]
    assert log.state(half) == HALF.number


def test_what_is_held_is_neither_cancelled_nor_moved(log: Log, half: int) -> None:
    """Nor does it count as settled; once it is pending again it may."""
    assert log.apply(cancel(half)).results[0].result.tolist() == [HELD]
    answer = log.apply(reschedule((half, T0 + 5_000))).results[0]
    assert (answer.result.tolist(), answer.due_ms.tolist(), answer.position.tolist()) == ([HELD], [0], [0])
    say(log, half, COMMITTED.number)
    assert log.state(half) == PENDING
    assert log.apply(reschedule((half, T0 + 5_000))).results[0].result.tolist() == [CANCELLED]
    assert log.apply(cancel(half)).results[0].result.tolist() == [CANCELLED]
    assert log.state(half) == CANCELLED_STATE


def test_what_is_pending_again_is_handed_over(log: Log, half: int) -> None:
    """As any other."""
    say(log, half, COMMITTED.number)
    assert log.apply(lease(half)).results[0].tolist() == [1]
    assert log.state(half) == LEASED
    assert log.apply(ack((half, 1, 1))).results[0].tolist() == [ACKED]
    assert log.state(half) == DELIVERED


def test_its_key_is_taken_for_as_long_as_it_keeps_its_hour(log: Log, half: int) -> None:
    """However long ago it was said."""
    later = log.apply(schedule(T0 + 1_000, keys=(key(0, b"f"),)), now_ms=T0 + 50 * HOUR_MS)
    assert later.results[0].status.tolist() == [REPLAYED]


@pytest.mark.parametrize("ends", [True, False])
def test_its_hour_is_not_unlinked(log: Log, half: int, ends: bool) -> None:
    """Until it has ended, and its retention is over."""
    if ends:
        say(log, half, CANCELLED_STATE)
    log.apply(DispatchState((T0 + 2 * HOUR_MS) // 1000, 0, log.index))
    unlink = Unlink(np.array([T0 // HOUR_MS], np.int64))
    assert log.apply(unlink, now_ms=T0 + 9 * HOUR_MS).results == (int(ends),)
