"""A leader's dispatcher from due to handed over, on the real machine and store."""

import numpy as np
import pytest

from node.handover.lease_book import LeaseBook
from node.leader.dispatcher import Dispatcher, DispatchOptions
from node.write.leader_commands import NOTHING_RIDES
from replication.apply.message.settle import ACKED, STALE
from replication.command.dispatch import DispatchState
from replication.command.topic import DropTopic
from tests.node.conftest import MakeLeader
from tests.node.one_leader import HOUR_MS, LEASE_MS, T0, Leader
from tests.pace import lines_run

SECOND = T0 // 1000


def test_at_its_millisecond_and_not_before(leader: Leader) -> None:
    """Nothing before the due millisecond; at it, in order of due time; step says exactly how long to sleep."""
    late, early = leader.schedule(T0 + 700, T0 + 5)
    assert leader.run(T0) == 5
    assert leader.pull(T0 + 4) == []
    assert leader.run(T0 + 4) == 1
    assert leader.pull(T0 + 5) == [early]
    assert leader.run(T0 + 5) == 695
    assert leader.pull(T0 + 700) == [late]


def test_an_idle_leader_sleeps_and_an_earlier_message_wakes_it(leader: Leader) -> None:
    """A5: a message due in 500 s costs one wake to load its slot and one to hand it over, whatever else is asked."""
    far = leader.schedule(T0 + 500_250)
    assert leader.run(T0) == 490_000, "ten seconds before its second, to load the slot"
    near = leader.schedule(T0 + 300_000)
    assert leader.run(T0) == 290_000
    assert leader.run(T0 + 290_000) == 10_000
    assert leader.pull(T0 + 300_000) == near
    assert leader.ack(near) == [ACKED]
    assert leader.run(T0 + 300_001) == LEASE_MS - 1, "where a lease ends, one look; it costs nothing here"
    assert leader.run(T0 + 330_000) == 160_000
    assert leader.run(T0 + 490_000) == 10_250
    assert leader.pull(T0 + 500_250) == far


def test_a_message_due_on_arrival_goes_at_once(leader: Leader) -> None:
    """B2: also for a second that has been dispatched already: it is clamped to the slot where the wheel stands."""
    leader.schedule(T0 + 5_000)
    leader.pull(T0 + 5_400)
    now_ms = T0 + 5_600
    assert leader.machine.tick == SECOND + 5
    past = leader.schedule(now_ms - 2_000, now_ms)
    assert leader.pull(now_ms) == past


def test_a_new_hour_is_entered_and_its_units_are_found(leader: Leader) -> None:
    """Units of far hours are read when their hour comes near; the state moves on with the hour, also when idle."""
    far = leader.schedule(T0 + 5 * HOUR_MS + 20)
    for hour in range(1, 6):
        leader.run(T0 + hour * HOUR_MS)
        assert leader.dispatcher.entry_due_ms() is not None, "the hour has turned, the state says so"
        leader.commit(T0 + hour * HOUR_MS)
        assert leader.machine.tick == SECOND + hour * 3600
    assert leader.pull(T0 + 5 * HOUR_MS + 19) == []
    assert leader.pull(T0 + 5 * HOUR_MS + 20) == far


def test_a_clock_that_goes_back_hands_over_nothing_early_and_nothing_twice(leader: Leader) -> None:
    """What is ready but not due by the new time waits, what is due goes; all of it comes when the clock is there."""
    units = leader.schedule(T0 + 100, T0 + 200, T0 + 300, T0 + 900)
    leader.run(T0 + 300)
    back = T0 + 150
    assert leader.dispatcher.step(back) is not None
    assert leader.hand_over(back).position.tolist() == units[:1]
    assert leader.hand_over(back).position.tolist() == []
    arrived = leader.schedule(back - 1, back + 100)
    assert leader.pull(back) == arrived[:1]
    wait_ms = leader.run(back)
    assert wait_ms is not None
    assert 0 < wait_ms <= 10, "the leader looks again soon"
    assert leader.pull(T0 + 250) == [units[1], arrived[1]]
    assert leader.pull(T0 + 900) == [units[2], units[3]]
    assert leader.pull(T0 + 901) == []


def test_a_lease_that_ended_waits_again_when_the_clock_goes_back(leader: Leader) -> None:
    """A unit that came back at its lease's end is not handed over before that end by the clock of the moment."""
    (unit,) = leader.schedule(T0 + 10)
    assert leader.pull(T0 + 10) == [unit]
    end_ms = T0 + 10 + LEASE_MS
    leader.run(end_ms + 200)
    assert leader.hand_over(end_ms - 5).position.tolist() == []
    assert leader.hand_over(end_ms).position.tolist() == [unit]


def test_hand_over_stops_50_ms_after_the_oldest_uncommitted(leader: Leader) -> None:
    """A11: with commits stalled, hand-overs span less than 50 ms; the first commit opens the way again."""
    leader.schedule(*range(T0 + 1, T0 + 201))
    times = []
    for now_ms in range(T0 + 1, T0 + 201):
        leader.dispatcher.step(now_ms)
        if len(leader.hand_over(now_ms, 1)):
            times.append(now_ms)
        if now_ms == T0 + 100:
            leader.commit(now_ms)
    assert times == [*range(T0 + 1, T0 + 51), *range(T0 + 101, T0 + 151)]


def test_leases_and_state_leave_on_their_beats(leader: Leader) -> None:
    """Leases 20 ms after the first hand-over, the state 50 ms after the last one while it changes, else nothing."""
    leader.schedule(T0 + 100, T0 + 110)
    entry = leader.machine.applied_index
    leader.run(T0 + 100)
    dispatcher = leader.dispatcher
    assert dispatcher.entry_due_ms() == T0 + 50, "the state moved, and the last one went out at T0"
    leader.commit(T0 + 100)
    assert dispatcher.entry_due_ms() is None
    leader.hand_over(T0 + 101)
    assert dispatcher.entry_due_ms() == T0 + 121
    assert dispatcher.collect(T0 + 120, going=False) == NOTHING_RIDES
    lease, state, *_ = dispatcher.collect(T0 + 121, going=False)
    assert lease is not None
    assert state is None
    leader.run(T0 + 130)
    assert dispatcher.entry_due_ms() == T0 + 150
    assert dispatcher.collect(T0 + 149, going=False) == NOTHING_RIDES
    assert dispatcher.collect(T0 + 149).state == DispatchState(SECOND, 2, entry)
    assert dispatcher.collect(T0 + 300) == NOTHING_RIDES


def test_the_state_names_only_what_was_dispatched(leader: Leader) -> None:
    """Units of an entry that came after the step are not named: neither counted nor below applied_index."""
    leader.schedule(T0 + 2_100, T0 + 2_300)
    before = leader.machine.applied_index
    leader.run(T0 + 2_200)
    leader.schedule(T0 + 2_050)
    assert leader.dispatcher.dispatch_state() == DispatchState(SECOND + 2, 1, before)
    leader.run(T0 + 2_200)
    assert leader.dispatcher.dispatch_state() == DispatchState(SECOND + 2, 2, before + 1)


def test_the_state_stands_still_while_the_clock_is_back(leader: Leader) -> None:
    """A unit that arrives for a time between the clocks is not dispatched, so the state may not speak of its entry."""
    leader.schedule(T0 + 2_100)
    leader.run(T0 + 2_200)
    state = leader.dispatcher.dispatch_state()
    leader.schedule(T0 + 2_150)
    leader.run(T0 + 2_120)
    assert leader.dispatcher.dispatch_state() == state
    leader.run(T0 + 2_200)
    assert leader.dispatcher.dispatch_state() == DispatchState(SECOND + 2, 2, leader.machine.applied_index)


def test_state_costs_the_same_for_one_unit_and_for_many(leader: Leader) -> None:
    """A6: the replicated state is one row whatever was dispatched."""
    leader.schedule(*[T0 + 1_000] * 5_000)
    leader.run(T0 + 1_000)
    state = leader.dispatcher.dispatch_state()
    assert state.local_index == 5_000
    assert len(b"".join(state.pack()[2])) == 24


def test_a_unit_comes_back_when_its_lease_ends_and_not_before(leader: Leader) -> None:
    """With attempt + 1, within 100 ms after the end; an acked one does not; after that its old receipt is stale."""
    one, two = leader.schedule(T0 + 10, T0 + 10)
    assert leader.pull(T0 + 10) == [one, two]
    assert leader.ack([one]) == [ACKED]
    end_ms = T0 + 10 + LEASE_MS
    assert leader.pull(end_ms - 1) == []
    wait_ms = leader.run(end_ms - 1)
    assert wait_ms is not None
    again_ms = end_ms - 1 + wait_ms
    assert end_ms <= again_ms < end_ms + 100
    leader.run(again_ms)
    again = leader.hand_over(again_ms)
    assert again.position.tolist() == [two]
    assert again.attempt.tolist() == [2]
    leader.commit(again_ms)
    assert leader.ack([two]) == [STALE]
    assert leader.ack([two], attempt=2) == [ACKED]
    assert leader.pull(again_ms + 2 * LEASE_MS) == []


def test_an_ack_after_the_lease_ended_keeps_the_unit_from_going_out_again(leader: Leader) -> None:
    """The unit stands in the window already; the records say that it is done."""
    (unit,) = leader.schedule(T0 + 10)
    leader.pull(T0 + 10)
    leader.run(T0 + LEASE_MS + 200)
    assert leader.dispatcher.handing_over.waiting(leader.subscription())
    assert leader.ack([unit]) == [ACKED]
    assert leader.hand_over(T0 + LEASE_MS + 200).position.tolist() == []
    assert not leader.dispatcher.handing_over.waiting(leader.subscription())


def test_a_lease_committed_after_it_ended_brings_the_unit_back(leader: Leader) -> None:
    """A stalled commit: the lease ends before the log knows it. The unit waits for the commit, then comes once."""
    (unit,) = leader.schedule(T0 + 10)
    leader.run(T0 + 10)
    leader.hand_over(T0 + 10, lease_ms=1_000)
    leader.run(T0 + 5_000)
    assert not leader.dispatcher.handing_over.waiting(leader.subscription())
    leader.commit(T0 + 5_000)
    assert leader.pull(T0 + 5_000) == [unit]
    assert leader.pull(T0 + 5_000) == []


def test_a_cancelled_unit_does_not_go_out(leader: Leader) -> None:
    """Wherever it stands: in the wheel, or ready in a window."""
    early, late = leader.schedule(T0 + 10, T0 + 20)
    leader.run(T0 + 10)
    assert leader.cancel(early, late) == [0, 0]
    assert leader.pull(T0 + 20) == []


def test_nothing_is_left_of_a_topic_that_is_gone(leader: Leader) -> None:
    """A cancelled unit leaves its window when somebody takes it, and nobody does any more. It was counted as ready."""
    (unit,) = leader.schedule(T0 + 10)
    leader.schedule(T0 + 10, topic="other")
    leader.run(T0 + 10)
    leader.cancel(unit)
    assert leader.dispatcher.handing_over.ready_count == 2
    at = leader.replica.machine.applied_index + 1
    leader.propose(DropTopic("default", "orders", at, leader.store.unit_count, 0))
    assert leader.store.catalog.topic("orders") is None
    assert leader.dispatcher.handing_over.ready_count == 1
    assert leader.pull(T0 + 20, topic="other") != []
    leader.commit(T0 + 20)
    assert not len(leader.dispatcher._claims)


def test_what_comes_due_of_a_topic_that_is_gone_makes_no_window(leader: Leader) -> None:
    """Its second was read before it was cancelled. Nor does what was taken, and comes back."""
    taken, due = leader.schedule(T0 + 10, T0 + 20)
    leader.run(T0 + 10)
    number = leader.topic()
    subscription = leader.subscription("orders")
    staged = leader.dispatcher.handing_over.stage(subscription, 10, T0 + 10)
    assert staged.tolist() == [taken]
    assert leader.cancel(taken, due) == [0, 0]
    at = leader.replica.machine.applied_index + 1
    leader.propose(DropTopic("default", "orders", at, leader.store.unit_count, 0))
    assert leader.store.catalog.topic_by_number(number) is None
    leader.dispatcher.handing_over.unstage(subscription, staged)
    leader.run(T0 + 30)
    assert leader.dispatcher.handing_over.ready_count == 0
    assert not len(leader.dispatcher._claims)


def test_many_cancelled_units_do_not_hide_what_is_behind_them(leader: Leader) -> None:
    """A window full of cancelled units is passed in bites, not one unit at a time."""
    units = leader.schedule(*[T0 + 10] * 3_000)
    leader.run(T0 + 10)
    leader.cancel(*units[:-1])

    def one() -> None:
        assert leader.hand_over(T0 + 10, 1).position.tolist() == units[-1:]

    assert lines_run(one) < 3_000, "a line of Python or less for each"


def test_a_held_unit_waits_and_is_first_when_released(leader: Leader) -> None:
    """From the proposal of a cancel to its result the unit stays; others pass it."""
    units = leader.schedule(T0 + 10, T0 + 10, T0 + 10)
    leader.dispatcher.handing_over.hold(units[:2])
    leader.run(T0 + 10)
    assert leader.hand_over(T0 + 10, 1).position.tolist() == units[2:]
    assert leader.cancel(units[1]) == [0]
    leader.dispatcher.handing_over.release(units[:2])
    assert leader.hand_over(T0 + 10).position.tolist() == units[:1]


def test_a_paused_topic_keeps_its_units(leader: Leader) -> None:
    """Nothing of it goes out, others do; when it goes on, all of it is there, in order."""
    slow = leader.schedule(T0 + 10, T0 + 30, topic="slow")
    leader.pause("slow", True)
    fast = leader.schedule(T0 + 20, topic="fast")
    assert leader.pull(T0 + 40, topic="slow") == []
    assert not leader.dispatcher.handing_over.waiting(leader.subscription("slow"))
    assert leader.pull(T0 + 40, topic="fast") == fast
    leader.pause("slow", False)
    assert leader.dispatcher.handing_over.waiting(leader.subscription("slow"))
    assert leader.pull(T0 + 41, topic="slow") == slow


def test_nothing_without_trust_and_nothing_after_stepping_down(leader: Leader) -> None:
    """A8: an untrusted leader takes nothing from ready; one that stopped forgets everything and proposes nothing."""
    leader.schedule(T0 + 10, T0 + 10)
    leader.run(T0 + 10)
    dispatcher, topic = leader.dispatcher, leader.subscription()
    assert len(dispatcher.handing_over.hand_over(topic, 9, LEASE_MS, T0 + 10, trusted=False)) == 0
    assert len(dispatcher.handing_over.hand_over(topic, 1, LEASE_MS, T0 + 10, trusted=True)) == 1
    dispatcher.handing_over.hold([1])
    dispatcher.stop()
    leader.schedule(T0 + 11)
    dispatcher.handing_over.release([1])
    assert dispatcher.step(T0 + 20) is None
    assert len(dispatcher.handing_over.hand_over(topic, 9, LEASE_MS, T0 + 20, trusted=True)) == 0
    assert not dispatcher.handing_over.waiting(topic)
    assert dispatcher.handing_over.ready_count == 0
    assert dispatcher.entry_due_ms() is None
    assert dispatcher.collect(T0 + 90) == NOTHING_RIDES


def test_leases_of_an_entry_that_was_refused_go_in_the_next(leader: Leader) -> None:
    """The proposer could not propose: nothing is lost, and the 50 ms still count from the hand-over."""
    (unit,) = leader.schedule(T0 + 10)
    leader.run(T0 + 10)
    leader.hand_over(T0 + 10)
    leader.dispatcher.collect(T0 + 30)
    leader.dispatcher.returned()
    assert leader.dispatcher.entry_due_ms() == T0 + 30
    leader.commit(T0 + 40)
    assert leader.store.states(np.array([unit], np.uint64)).attempt.tolist() == [1]


def test_a_backlog_of_any_size_costs_a_window_and_delays_nobody(make_leader: MakeLeader) -> None:
    """A topic far past its bound comes out whole and once, in order of its second; another one passes it at once."""
    leader = make_leader(window_per_topic=50, window_total=100)
    leader.promote(T0)
    slow = [p for second in range(8) for p in leader.schedule(*[T0 + second * 1_000] * 100, topic="slow")]
    fast = leader.schedule(T0 + 7_000, topic="fast")
    leader.run(T0 + 7_000)
    assert leader.dispatcher.handing_over.ready_count <= 100
    assert leader.pull(T0 + 7_000, topic="fast") == fast
    found = leader.drain(T0 + 7_100, topic="slow")
    assert sorted(found) == sorted(slow)
    assert leader.drain(T0 + 7_200, topic="slow") == []


def test_slots_may_be_read_by_the_caller(make_leader: MakeLeader) -> None:
    """With inline_reads off, step reads nothing: `loads` names seconds, `loaded` takes what was read, however late."""
    leader = make_leader(inline_reads=False)
    leader.promote(T0)
    units = leader.schedule(T0 + 20_500, T0 + 20_600)
    dispatcher = leader.dispatcher
    assert leader.run(T0 + 5_000) == 5_000
    assert dispatcher.loads(T0 + 5_000) == []
    leader.run(T0 + 10_600)
    assert dispatcher.loads(T0 + 10_600) == [SECOND + 20]
    read = leader.store.second(SECOND + 20)
    arrived = leader.schedule(T0 + 20_400)
    assert leader.cancel(units[0]) == [0]
    assert leader.pull(T0 + 20_700) == []
    assert dispatcher.dispatch_state().tick == SECOND + 20, "the second is not through before it is read"
    dispatcher.loaded(SECOND + 20, read)
    assert leader.pull(T0 + 20_700) == [arrived[0], units[1]]


def test_a_second_full_of_messages_costs_no_line_for_each(leader: Leader) -> None:
    """20,000 due at once: steps and hand-overs do their work in columns."""
    for _ in range(4):
        leader.schedule(*[T0 + 9_000] * 5_000)
    leader.run(T0 + 8_000)

    def whole_second() -> None:
        leader.run(T0 + 9_000)
        assert sum(len(leader.hand_over(T0 + 9_000)) for _ in range(20)) == 20_000

    assert lines_run(whole_second) < 20_000


def test_options_that_contradict_each_other_are_refused(leader: Leader) -> None:
    """A beat as long as the stop would stall every hand-over; a window above the total could never fill."""
    with pytest.raises(AssertionError, match="leases leave"):
        LeaseBook(stop_ms=20, beat_ms=20)
    with pytest.raises(AssertionError, match="window"):
        Dispatcher(leader.store, term=1, options=DispatchOptions(window_per_topic=5, window_total=4))
