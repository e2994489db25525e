"""Failed hand-overs: the next try, the end, and who may still say what."""

from dataclasses import replace

import numpy as np
import pytest

from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import SETTLED
from replication.apply.message.running_sets import KNOWN
from replication.apply.message.settle import ACKED, INVALID, STALE
from replication.command.dispatch import DispatchState
from replication.command.handover import AGAIN
from replication.command.schedule import Key
from replication.command.unlink import Unlink
from storage.format.states import DEAD, DELIVERED, FORWARDED, MOVED, PENDING
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

HOUR = T0 // HOUR_MS


def leased(log: Log, *, attempt: int = 1, keys: tuple[Key, ...] = ()) -> int:
    """A message that was handed over once."""
    (home,) = placed(log.apply(schedule(T0, keys=keys)))
    log.apply(lease(home, attempt=attempt))
    return home


def test_a_failed_hand_over_moves_the_message_to_its_next_try(log: Log) -> None:
    """The id's home says where it went, the new unit counts the attempt, the record keeps what was asked."""
    home = leased(log)
    before = log.record(home)
    due_ms = T0 + 2 * HOUR_MS + 7
    assert log.apply(fail((home, 1, 1), due_ms=due_ms, texts=(b"it said no",)), now_ms=T0 + 50).results[0] == [ACKED]
    place = log.place(home)
    assert place >> 40 == HOUR + 2
    assert (log.state(home), log.state(place)) == (FORWARDED, PENDING)
    after, unit = log.record(place), log.store.units(np.array([place], np.uint64))[0]
    assert (int(unit["due_ms"]), int(unit["attempt"])) == (due_ms, 1)
    assert (after.position, after.random, after.body) == (before.position, before.random, before.body)
    assert (after.asked_due_ms, after.created_ms, after.attempt) == (before.asked_due_ms, before.created_ms, 0)
    assert after.extension == {"error": "it said no"}
    (forward,) = log.store.newest(np.array([home], np.uint64))
    assert (int(forward["code"]), int(forward["term"]), int(forward["attempt"])) == (500, 1, 1)


def test_a_hand_over_that_never_began_does_not_count(log: Log) -> None:
    """Its number stays taken, since a receipt may name it; the record says how many do not count, and goes on saying
    it. Said again it counts no less."""
    home = leased(log)
    never = replace(fail((home, 1, 1)), fate=np.array([AGAIN], np.uint8))
    for _ in range(2):
        assert log.apply(never).results[0] == [ACKED]
    first = log.place(home)
    assert (log.record(first).attempt, int(log.store.units(np.array([first], np.uint64))["attempt"][0])) == (1, 1)
    log.apply(lease(first, attempt=2))
    log.apply(fail((first, 1, 2)))
    second = log.place(home)
    assert (log.record(second).attempt, int(log.store.units(np.array([second], np.uint64))["attempt"][0])) == (1, 2)


def test_a_message_that_moves_on_leaves_moved_behind_and_home_names_the_newest_place(log: Log) -> None:
    """Two failures: home forwards to the second place in one hop; how it ends is written at its place and at home."""
    home = leased(log)
    log.apply(fail((home, 1, 1), texts=(b"first",)))
    first = log.place(home)
    log.apply(lease(first, attempt=2))
    log.apply(fail((first, 1, 2), due_ms=T0 + HOUR_MS))
    second = log.place(home)
    assert (log.state(home), log.state(first), log.state(second)) == (FORWARDED, MOVED, PENDING)
    assert "error" not in log.record(second).extension
    assert log.store.unsettled(HOUR) == 1  # the home, though nothing is open in its hour
    log.apply(lease(second, attempt=3))
    assert log.apply(ack((second, 1, 3)), now_ms=T0 + 90).results[0].tolist() == [ACKED]
    assert (log.state(home), log.state(second)) == (DELIVERED, DELIVERED)
    ends = log.store.newest(np.array([home, second], np.uint64))
    for name in ("what", "at_ms", "term", "attempt", "node", "code"):
        assert ends[name][0] == ends[name][1], name
    assert log.store.unsettled(HOUR) == log.store.unsettled(HOUR + 1) == 0


def test_a_receipt_of_an_old_place_is_stale_and_the_failure_itself_is_done(log: Log) -> None:
    """After the move: the same Fail again is done, an ack or an older Fail by that receipt is stale."""
    home = leased(log)
    log.apply(lease(home, attempt=2, end_ms=T0 + 60_000))
    again = fail((home, 1, 2), (home, 1, 2), (home, 1, 1), (99, 1, 1))
    assert log.apply(again).results[0].tolist() == [ACKED, ACKED, STALE, INVALID]
    assert log.apply(again).results[0].tolist() == [ACKED, ACKED, STALE, INVALID]
    assert log.apply(ack((home, 1, 2))).results[0].tolist() == [STALE]
    assert log.store.unit_count == 2


def test_a_fail_is_not_taken_for_done_because_the_message_was_rescheduled(log: Log) -> None:
    """The home's forward bears that hand-over's fence, but a wish moved the message, not the failure."""
    home = leased(log)
    log.apply(reschedule((home, T0 + 9_000)), now_ms=T0 + 40_000)
    assert log.apply(fail((home, 1, 1))).results[0].tolist() == [STALE]
    assert log.apply(ack((home, 1, 1))).results[0].tolist() == [STALE]


def test_dead_is_the_end_and_says_why(log: Log) -> None:
    """DEAD settles with the failure's code; nothing more is accepted; the same Fail again is done."""
    home = leased(log)
    assert log.apply(fail((home, 1, 1), dead=True, code=1000)).results[0].tolist() == [ACKED]
    assert log.state(home) == DEAD
    assert int(log.store.newest(np.array([home], np.uint64))["code"][0]) == 1000
    assert log.store.unsettled(HOUR) == 0
    assert log.apply(fail((home, 1, 1)), ack((home, 1, 1)), cancel(home)).results[1].tolist() == [ACKED]
    assert log.apply(ack((home, 1, 1))).results[0].tolist() == [STALE]
    assert log.apply(cancel(home)).results[0].result.tolist() == [SETTLED]


def test_a_hand_over_the_log_never_saw_may_fail_or_be_acked_at_a_moved_place(log: Log) -> None:
    """A dead leader takes Leases with it: its receipts at the new place count, with the attempts they name."""
    home = leased(log)
    log.apply(fail((home, 1, 1)))
    first = log.place(home)
    log.apply(fail((first, 1, 2)), term=2)
    second = log.place(home)
    assert int(log.store.units(np.array([second], np.uint64))["attempt"][0]) == 2
    assert log.apply(ack((second, 1, 3)), term=2).results[0].tolist() == [ACKED]
    assert (log.state(home), log.state(second)) == (DELIVERED, DELIVERED)


def test_attempts_never_go_down(log: Log) -> None:
    """A claim of a later term may be of a lower attempt than those before it; the count goes on from the highest."""
    home = leased(log, attempt=7)
    log.apply(fail((home, 2, 1)), term=2)
    assert int(log.store.units(np.array([log.place(home)], np.uint64))["attempt"][0]) == 7


def test_a_failure_holds_in_an_entry_that_a_later_leader_completed(log: Log) -> None:
    """It names its hand-over by receipt, as an ack does; the state in the same entry is void."""
    home = leased(log)
    applied = log.apply(DispatchState(T0 // 1000 + 60, 0, 1), fail((home, 1, 1)), term=1, entry_term=2)
    assert applied.results[0] is None
    assert applied.results[1].tolist() == [ACKED]
    assert log.state(home) == FORWARDED


def test_the_next_try_is_clamped_to_the_slot_of_the_state(log: Log) -> None:
    """In one entry the state takes effect first."""
    home = leased(log)
    log.apply(DispatchState(T0 // 1000 + 60, 0, 1), fail((home, 1, 1), due_ms=T0 + 5))
    assert int(log.store.units(np.array([log.place(home)], np.uint64))["due_ms"][0]) == T0 + 60_000


def test_one_entry_with_everything_about_one_message(log: Log) -> None:
    """In the order of kinds: the Lease is seen by the Fail that names it, the Cancel finds the message where the Fail
    put it, and the Reschedule finds it cancelled."""
    (home,) = placed(log.apply(schedule(T0)))
    applied = log.apply(
        reschedule((home, T0 + 9_000)), cancel(home), fail((home, 1, 1)), ack((home, 1, 0)), lease(home)
    )
    leases, acks, fails, cancels, reschedules = applied.results
    assert (leases.tolist(), acks.tolist(), fails.tolist()) == ([1], [STALE], [ACKED])
    assert (cancels.result.tolist(), cancels.attempts.tolist(), cancels.prior.tolist()) == ([CANCELLED], [1], [KNOWN])
    assert reschedules.result.tolist() == [SETTLED]


def test_a_key_is_held_while_the_message_lives_elsewhere_and_freed_by_its_end(log: Log) -> None:
    """Retention counts from the end at the newest place, not from the move."""
    home = leased(log, keys=(key(0, b"a"),))
    log.apply(fail((home, 1, 1), due_ms=T0 + HOUR_MS))
    taken = log.apply(schedule(T0, keys=(key(0, b"a"),)), now_ms=T0 + HOUR_MS).results[0]
    assert taken.position.tolist() == [home]
    log.apply(fail((log.place(home), 1, 2), dead=True), now_ms=T0 + HOUR_MS)
    still = log.apply(schedule(T0, keys=(key(0, b"a"),)), now_ms=T0 + HOUR_MS + 60_000).results[0]
    assert still.position.tolist() == [home]
    free = log.apply(schedule(T0, keys=(key(0, b"a"),)), now_ms=T0 + HOUR_MS + 60_001).results[0]
    assert free.position.tolist() != [home]


def test_an_hour_whose_messages_live_elsewhere_stays(log: Log) -> None:
    """Unlink refuses the home's hour until the message has ended and its retention is over."""
    home = leased(log)
    log.apply(fail((home, 1, 1), due_ms=T0 + HOUR_MS))
    place, hours = log.place(home), np.array([HOUR, HOUR + 1], np.int64)
    log.apply(DispatchState((T0 + 3 * HOUR_MS) // 1000, 0, 1))
    late_ms = T0 + 4 * HOUR_MS
    assert log.apply(Unlink(hours), now_ms=late_ms).results[0] == 0
    log.apply(ack((place, 1, 2)), now_ms=late_ms)
    assert log.apply(Unlink(hours), now_ms=late_ms + 60_000).results[0] == 0
    assert log.apply(Unlink(hours), now_ms=late_ms + 60_001).results[0] == 2
    assert log.apply(cancel(home), now_ms=late_ms + 60_002).results[0].result.tolist() == [3]


@pytest.mark.parametrize("text", [b"\xff\xfe bytes", "ü".encode() * 512 + b"\xc3"])
def test_a_text_that_is_no_text_does_no_harm(log: Log, text: bytes) -> None:
    """Receivers answer what they like, and the leader may cut in the middle of a character."""
    home = leased(log)
    log.apply(fail((home, 1, 1), texts=(text,)))
    error = log.record(log.place(home)).extension["error"]
    assert error == text[:1024].decode(errors="ignore")
