"""Staging for push, limits of attempts, and messages that move: what leaves a window, and when it comes back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from node.handover.attempt_limit import Exhausted
from node.leader.dispatcher import Dispatcher
from replication.apply.message.settle import ACKED
from storage.format.array import U16, U64
from storage.format.states import DEAD
from tests.node.conftest import MakeLeader
from tests.node.one_leader import LEASE_MS, T0, Leader


class Limit:
    """So many attempts for every unit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[int] = []

    def over(self, topic: int, positions: U64, attempts: U16) -> npt.NDArray[np.bool_]:
        """See AttemptLimit."""
        self.asked += attempts.tolist()
        return attempts > self.most


def stage(leader: Leader, now_ms: int, most: int = 100) -> U64:
    """Staged units of the one topic."""
    return leader.dispatcher.handing_over.stage(leader.subscription(), most, now_ms)


def send(leader: Leader, positions: U64, now_ms: int, *, trusted: bool = True) -> tuple[list[int], list[int]]:
    """Hand staged units over: those handed over, those left."""
    hand_over, left = leader.dispatcher.handing_over.hand_over_staged(
        leader.subscription(), positions, LEASE_MS, now_ms, trusted=trusted
    )
    return hand_over.position.tolist(), left.tolist()


def nothing_is_claimed_but(leader: Leader, *elsewhere: int) -> None:
    """Claimed is what stands in windows, and these."""
    dispatcher = leader.dispatcher
    assert len(dispatcher._claims) == dispatcher.handing_over.ready_count + len(elsewhere)
    assert dispatcher._claims.mask(np.array(elsewhere, np.uint64)).all()


def spent(exhausted: list[Exhausted]) -> list[tuple[list[int], list[int], list[int]]]:
    """In plain lists."""
    return [(each.position.tolist(), each.term.tolist(), each.attempt.tolist()) for each in exhausted]


def test_staged_units_are_out_of_turn_and_not_leased(leader: Leader) -> None:
    """Neither pulled nor found again while staged; handed over under a lease, in order; then as any other."""
    units = leader.schedule(*range(T0 + 1, T0 + 7))
    leader.run(T0 + 10)
    staged = stage(leader, T0 + 10, 4)
    assert staged.tolist() == units[:4]
    assert leader.pull(T0 + 11) == units[4:]
    nothing_is_claimed_but(leader, *units[:4])
    assert send(leader, staged[[1, 0]], T0 + 12) == ([units[1], units[0]], [])
    leader.commit(T0 + 12)
    nothing_is_claimed_but(leader, *units[2:4])
    assert leader.ack(units[:2]) == [ACKED, ACKED]
    leader.dispatcher.handing_over.unstage(leader.subscription(), staged[2:])
    assert leader.pull(T0 + 13) == units[2:4], "first in line again"
    nothing_is_claimed_but(leader)


def test_what_ended_or_is_held_meanwhile_does_not_go_out(leader: Leader) -> None:
    """The records and the holds are asked when it is handed over, not when it was staged."""
    cancelled, held, going = leader.schedule(*[T0 + 1] * 3)
    leader.run(T0 + 1)
    staged = stage(leader, T0 + 1)
    leader.dispatcher.handing_over.hold([cancelled, held])
    assert leader.cancel(cancelled) == [0]
    leader.dispatcher.handing_over.release([cancelled])
    assert send(leader, staged, T0 + 2) == ([going], [])
    nothing_is_claimed_but(leader, held, going)
    assert len(stage(leader, T0 + 2)) == 0
    leader.dispatcher.handing_over.release([held])
    assert stage(leader, T0 + 3).tolist() == [held]


def test_without_trust_or_against_the_stop_rule_they_stay_staged(leader: Leader) -> None:
    """Nothing is lost, nothing goes; once it is allowed again they go under the same names."""
    units = leader.schedule(*[T0 + 1] * 3)
    leader.run(T0 + 1)
    staged = stage(leader, T0 + 1)
    assert send(leader, staged, T0 + 1, trusted=False) == ([], units)
    assert send(leader, staged[:1], T0 + 1) == (units[:1], [])
    assert send(leader, staged[1:], T0 + 51) == ([], units[1:])
    leader.commit(T0 + 51)
    assert send(leader, staged[1:], T0 + 51) == (units[1:], [])


def test_a_clock_that_goes_back_sends_nothing_early(leader: Leader) -> None:
    """Staged, then the clock goes back: what is not due again returns to its window and waits there; what is due
    again is found behind what is not."""
    late, early = leader.schedule(T0 + 300, T0 + 100)
    leader.run(T0 + 300)
    staged = stage(leader, T0 + 300)
    assert staged.tolist() == [early, late]
    leader.dispatcher.step(T0 + 200)
    assert send(leader, staged[::-1], T0 + 200) == ([early], [])
    assert stage(leader, T0 + 250).tolist() == []
    arrived = leader.schedule(T0 + 240)
    leader.run(T0 + 250)
    assert stage(leader, T0 + 250).tolist() == arrived
    assert send(leader, np.array(arrived, np.uint64), T0 + 239) == ([], [])
    leader.run(T0 + 300)
    assert stage(leader, T0 + 300).tolist() == [*arrived, late]


def test_a_paused_topic_stages_nothing_and_what_was_staged_goes_back(leader: Leader) -> None:
    """When it goes on, all is there in order."""
    units = leader.schedule(*[T0 + 1] * 3)
    leader.run(T0 + 1)
    staged = stage(leader, T0 + 1, 2)
    leader.pause("orders", True)
    assert stage(leader, T0 + 1).tolist() == []
    assert send(leader, staged, T0 + 1) == ([], [])
    nothing_is_claimed_but(leader)
    leader.pause("orders", False)
    assert stage(leader, T0 + 1).tolist() == units


def test_overdue_is_staged_at_its_pace_behind_what_is_due_now(make_leader: MakeLeader) -> None:
    """As for pull: what is due now first, of what is overdue so much per ten milliseconds."""
    leader = make_leader(pace_per_step=2)
    overdue = leader.schedule(*range(T0 - 5, T0))
    (now,) = leader.schedule(T0 + 5)
    leader.promote(T0)
    leader.run(T0 + 5)
    assert stage(leader, T0 + 5).tolist() == [now, *overdue[:2]]
    leader.run(T0 + 6)
    assert stage(leader, T0 + 6).tolist() == []
    leader.run(T0 + 15)
    assert stage(leader, T0 + 15).tolist() == overdue[2:4]


def test_stepping_down_drops_everything_staged(leader: Leader) -> None:
    """Handed over is nothing of it, whatever its holder asks; the next leader finds it in the records."""
    units = leader.schedule(*[T0 + 1] * 3)
    leader.run(T0 + 1)
    staged = stage(leader, T0 + 1)
    old = leader.dispatcher.handing_over
    leader.dispatcher.stop()
    assert old.stage(leader.subscription(), 9, T0 + 2).tolist() == []
    assert [len(part) for part in old.hand_over_staged(leader.subscription(), staged, 9, T0 + 2, trusted=True)] == [
        0,
        0,
    ]
    old.unstage(leader.subscription(), staged)
    assert old.take_exhausted() == []
    assert leader.promote(T0 + 2) is None
    assert leader.pull(T0 + 2) == units


def test_staged_units_of_a_topic_that_hangs_cost_a_step_nothing(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other topics' hand-overs and steps ask neither records nor claims of them."""
    leader.schedule(*[T0 + 1] * 2_000, topic="slow")
    leader.run(T0 + 1)
    assert len(leader.dispatcher.handing_over.stage(leader.subscription("slow"), 2_000, T0 + 1)) == 2_000
    fast = leader.schedule(T0 + 2, topic="fast")
    asked: list[int] = []
    states_of = leader.store.states

    def counted(positions: U64) -> object:
        asked.append(len(positions))
        return states_of(positions)

    monkeypatch.setattr(leader.store, "states", counted)
    leader.run(T0 + 2)
    assert leader.hand_over(T0 + 2, topic="fast").position.tolist() == fast
    assert sum(asked) == 1


def limited(leader: Leader, most: int) -> Limit:
    """A new term with a limit."""
    leader.limit = limit = Limit(most)
    assert leader.promote(T0) is None
    return limit


def test_an_exhausted_unit_is_told_of_once_and_held_until_its_fail_has_a_result(leader: Leader) -> None:
    """Others pass it; if its Fail came to nothing it is told of again, if it ended it is gone."""
    limit = limited(leader, 1)
    units = leader.schedule(T0 + 10, T0 + 10, T0 + 10)
    assert leader.pull(T0 + 10) == units
    assert limit.asked == []
    assert leader.ack(units[2:]) == [ACKED]
    again_ms = T0 + 20 + LEASE_MS
    (fresh,) = leader.schedule(again_ms)
    leader.run(again_ms + 100)
    assert leader.pull(again_ms + 100) == [fresh]
    assert limit.asked == [2, 2]
    assert spent(leader.dispatcher.handing_over.take_exhausted()) == [(units[:2], [leader.term] * 2, [1, 1])]
    assert leader.dispatcher.handing_over.take_exhausted() == []
    assert leader.pull(again_ms + 101) == []
    leader.dispatcher.handing_over.release(units[1:2])
    assert leader.pull(again_ms + 102) == []
    assert spent(leader.dispatcher.handing_over.take_exhausted()) == [(units[1:2], [leader.term], [1])]
    assert leader.fail(*units[:2], attempt=1, now_ms=again_ms + 103) == [ACKED] * 2
    leader.dispatcher.handing_over.release(units[:2])
    assert leader.pull(again_ms + 104) == []
    nothing_is_claimed_but(leader)
    assert leader.store.states(np.array(units[:2], np.uint64)).state.tolist() == [DEAD] * 2


def test_a_limit_counts_the_attempts_before_a_move(leader: Leader) -> None:
    """Attempts go on over moves: the third hand-over bears 3, wherever the message stands."""
    limit = limited(leader, 2)
    (home,) = leader.schedule(T0 + 10)
    assert leader.pull(T0 + 10) == [home]
    assert leader.fail(home, attempt=1, now_ms=T0 + 20, retry_ms=T0 + 1_000) == [ACKED]
    place = leader.place(home)
    leader.run(T0 + 1_000)
    second = leader.hand_over(T0 + 1_000)
    assert (second.position.tolist(), second.attempt.tolist()) == ([place], [2])
    leader.commit(T0 + 1_000)
    assert leader.fail(place, attempt=2, now_ms=T0 + 1_100, retry_ms=T0 + 2_000) == [ACKED]
    last = leader.place(home)
    staged = stage(leader, T0 + 1_999)
    assert staged.tolist() == []
    leader.run(T0 + 2_000)
    staged = stage(leader, T0 + 2_000)
    assert send(leader, staged, T0 + 2_000) == ([], [])
    assert spent(leader.dispatcher.handing_over.take_exhausted()) == [([last], [0], [2])], (
        "never handed over where it stands"
    )
    assert limit.asked == [2, 3]
    assert leader.fail(last, attempt=2, now_ms=T0 + 2_001) == [ACKED]
    leader.dispatcher.handing_over.release([last])
    nothing_is_claimed_but(leader)


def test_exhausted_units_pause_the_topic_that_has_many_of_them(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are held at a time, and every one is told of once as they are released."""
    monkeypatch.setattr("node.handover.attempt_limit.EXHAUSTED_MAX", 20)
    limited(leader, 1)
    units = leader.schedule(*[T0 + 10] * 50)
    leader.pull(T0 + 10)
    now_ms = T0 + LEASE_MS + 200
    leader.run(now_ms)
    told: list[int] = []
    while leader.dispatcher.handing_over.waiting(leader.subscription()):
        assert leader.pull(now_ms, 8) == []
        (*parts,) = leader.dispatcher.handing_over.take_exhausted()
        found = [position for part in parts for position in part.position.tolist()]
        assert len(found) < 28
        told += found
        leader.fail(*found, attempt=1, now_ms=now_ms)
        leader.dispatcher.handing_over.release(found)
    assert told == units


def test_a_hold_goes_with_a_message_that_is_retried_meanwhile(leader: Leader) -> None:
    """A cancel is on its way, the retry that is applied before it moves the message: at its new place it is held too,
    and it is free when the cancel has its result."""
    (home,) = leader.schedule(T0 + 10)
    assert leader.pull(T0 + 10) == [home]
    leader.dispatcher.handing_over.hold([home])
    leader.fail(home, attempt=1, now_ms=T0 + 20, retry_ms=T0 + 30)
    place = leader.place(home)
    assert place != home
    assert leader.pull(T0 + 30) == []
    nothing_is_claimed_but(leader, place)
    leader.dispatcher.handing_over.release([home])
    assert leader.pull(T0 + 31) == [place]


def test_a_message_is_held_by_its_home_where_it_stands(leader: Leader) -> None:
    """The cancel names the home, the unit stands elsewhere, in a window or staged."""
    one, two = leader.schedule(T0 + 10, T0 + 10)
    places = [leader.reschedule(home, T0 + 500, now_ms=T0 + 1) for home in (one, two)]
    leader.run(T0 + 500)
    staged = stage(leader, T0 + 500, 1)
    leader.dispatcher.handing_over.hold([one, two])
    assert send(leader, staged, T0 + 500) == ([], [])
    assert leader.pull(T0 + 500) == []
    assert leader.cancel(one, now_ms=T0 + 500) == [0]
    leader.dispatcher.handing_over.release([one, two])
    assert leader.pull(T0 + 501) == places[1:]
    nothing_is_claimed_but(leader)


@pytest.mark.parametrize("where", ["window", "aside", "staged"])
def test_a_message_moved_away_frees_its_old_place(leader: Leader, where: str) -> None:
    """Wherever it stood, it goes out once, at its new time, and no claim is left."""
    (home,) = leader.schedule(T0 + 10)
    leader.run(T0 + 10)
    staged = stage(leader, T0 + 10) if where == "staged" else None
    leader.dispatcher.handing_over.hold([home])
    if where == "aside":
        assert leader.pull(T0 + 10) == []
    place = leader.reschedule(home, T0 + 50, now_ms=T0 + 11)
    leader.dispatcher.handing_over.release([home])
    if staged is not None:
        assert send(leader, staged, T0 + 12) == ([], [])
    assert leader.pull(T0 + 49) == []
    assert leader.pull(T0 + 50) == [place]
    nothing_is_claimed_but(leader)


def test_a_dispatcher_without_a_limit_hands_over_again_for_ever(leader: Leader) -> None:
    """What decides about attempts is given to it; alone it only counts them."""
    assert isinstance(leader.dispatcher, Dispatcher)
    (unit,) = leader.schedule(T0 + 10)
    now_ms = T0 + 10
    for attempt in range(1, 6):
        leader.run(now_ms)
        assert leader.hand_over(now_ms).attempt.tolist() == [attempt]
        leader.commit(now_ms)
        now_ms += LEASE_MS + 200
    assert leader.place(unit) == unit


def test_policies_are_asked_for_what_has_room_alone(make_leader: MakeLeader) -> None:
    """Who asks for 1,000 and gets what 7 MiB hold does not have the records of all read: with large bodies that held
    up the loop for longer than trust lasts, at each pull of what comes again."""
    leader = make_leader()
    limit = limited(leader, 5)
    units = leader.schedule(*[T0 + 5] * 300)
    assert leader.pull(T0 + 5, lease_ms=1_000) == units
    leader.run(T0 + 2_000)
    size = int(leader.store.units(np.array(units[:1], np.uint64))["size"][0])
    made = leader.dispatcher.handing_over.hand_over(
        leader.subscription(), 300, 1_000, T0 + 2_000, trusted=True, max_bytes=10 * size
    )
    assert made.position.tolist() == units[:10]
    assert len(limit.asked) <= 12
    leader.commit(T0 + 2_000)
    assert leader.drain(T0 + 2_001) == units[10:]
