"""What a new leader finds in the records, and how its wheel and clock come together."""

import numpy as np
import numpy.typing as npt
import pytest

from node.write.leader_commands import NOTHING_RIDES
from replication.apply.message.settle import ACKED
from replication.command.dispatch import Realign
from storage.catalog.doubt import CLOCKS_MS
from tests.node.conftest import MakeLeader
from tests.node.one_leader import HOUR_MS, LEASE_MS, T0, Leader

SECOND = T0 // 1000


def crash_and_promote(leader: Leader, now_ms: int) -> None:
    """The leader is gone with what it had not committed; the next one has applied the same entries."""
    assert leader.promote(now_ms) is None


def test_what_was_neither_leased_nor_settled_comes_back_once(leader: Leader) -> None:
    """Overdue, due now, due later, of past and coming hours: each once, none early; leased and settled ones do not."""
    now_ms = T0 + HOUR_MS + 5_000
    past = leader.schedule(T0 + 100, T0 + 200)
    leased, acked, lost = leader.schedule(now_ms - 900, now_ms - 900, now_ms - 800)
    later = leader.schedule(now_ms, now_ms + 1, now_ms + 20_000, now_ms + 2 * HOUR_MS)
    (cancelled,) = leader.schedule(now_ms - 700)
    leader.cancel(cancelled)
    crash_and_promote(leader, T0)
    leader.run(now_ms - 850)
    assert leader.hand_over(now_ms - 850, 2).position.tolist() == past
    leader.dispatcher.collect(now_ms - 850)  # the entry never reaches a majority
    crash_and_promote(leader, now_ms - 850)
    assert leader.drain(now_ms - 850) == [*past, leased, acked]
    leader.ack([*past, acked])
    leader.run(now_ms - 800)
    assert leader.hand_over(now_ms - 800).position.tolist() == [lost]
    crash_and_promote(leader, now_ms)
    assert leader.pull(now_ms) == [lost, later[0]]
    assert leader.pull(now_ms + 1) == [later[1]]
    assert leader.pull(now_ms + 19_999) == []
    assert leader.pull(now_ms + 20_000) == [later[2]]
    ended = now_ms - 850 + LEASE_MS + CLOCKS_MS + 100
    assert leader.pull(ended) == [lost, *later[:2], leased], "those of the leader itself end first"
    assert sorted(leader.drain(now_ms + 2 * HOUR_MS)) == sorted([*later, lost, leased])
    assert leader.pull(now_ms + 2 * HOUR_MS) == []


def test_leases_that_ended_while_nobody_led_come_back_too(leader: Leader) -> None:
    """With the next attempt and a higher term; those that still run wait for their end by every clock (FOUND D2)."""
    short, long = leader.schedule(T0 + 10, T0 + 20)
    assert leader.pull(T0 + 10, lease_ms=1_000) == [short]
    assert leader.pull(T0 + 20, lease_ms=60_000) == [long]
    crash_and_promote(leader, T0 + 10_000)
    leader.run(T0 + 10_000)
    again = leader.hand_over(T0 + 10_000)
    assert (again.position.tolist(), again.attempt.tolist()) == ([short], [2])
    leader.commit(T0 + 10_000)
    assert leader.ack([short], attempt=2) == [ACKED]
    assert leader.pull(T0 + 60_019 + CLOCKS_MS) == []
    assert leader.pull(T0 + 60_100 + CLOCKS_MS) == [long]


def test_a_lease_of_the_hour_after_ours_is_found(leader: Leader) -> None:
    """The dead leader's clock was ahead over the turn of the hour; its leases run on under ours."""
    (unit,) = leader.schedule(T0 + HOUR_MS + 100)
    assert leader.pull(T0 + HOUR_MS + 100, lease_ms=5_000) == [unit]
    crash_and_promote(leader, T0 + HOUR_MS - 200)
    assert leader.drain(T0 + HOUR_MS + 1_000) == []
    assert leader.pull(T0 + HOUR_MS + 5_099 + CLOCKS_MS) == []
    assert leader.pull(T0 + HOUR_MS + 5_100 + CLOCKS_MS) == [unit]


@pytest.mark.parametrize("hours", [2, 3, 5])
def test_leases_of_hours_a_realign_set_back_are_found_when_their_hour_comes(leader: Leader, hours: int) -> None:
    """The dead leader's clock was hours ahead; a later leader, which sees no trace of that in the tick, finds them."""
    due_ms = T0 + hours * HOUR_MS + 100
    (unit,) = leader.schedule(due_ms)
    crash_and_promote(leader, due_ms - 100)
    assert leader.pull(due_ms, lease_ms=5_000) == [unit]
    realign = leader.promote(T0)
    assert realign is not None
    leader.propose(realign, now_ms=T0)
    crash_and_promote(leader, T0 + 100)
    for hour in range(hours + 1):
        leader.run(T0 + hour * HOUR_MS + 100)
    assert leader.pull(due_ms + 4_999 + CLOCKS_MS) == []
    assert leader.pull(due_ms + 6_000 + CLOCKS_MS) == [unit], "long leases are looked for on a grid of a second"


@pytest.mark.parametrize("ahead_ms", [1, 500])
def test_a_tick_up_to_500_ms_ahead_is_slept_through(leader: Leader, ahead_ms: int) -> None:
    """A9, ahead: nothing moves until the clock is where the state stands; then everything that is due goes, once."""
    units = leader.schedule(T0 + 9_400, T0 + 9_950, T0 + 10_001)
    now_ms = T0 + 10_000 - ahead_ms
    assert leader.promote(now_ms, tick=SECOND + 10) is None
    assert leader.dispatcher.step(now_ms) == ahead_ms
    units += leader.schedule(now_ms)
    assert leader.dispatcher.step(T0 + 9_999) == 1
    assert leader.hand_over(T0 + 9_999).position.tolist() == []
    assert sorted(leader.drain(T0 + 10_000)) == sorted([*units[:2], units[3]])
    assert leader.pull(T0 + 10_001) == [units[2]]


def test_a_tick_farther_ahead_is_set_back_by_realign(leader: Leader) -> None:
    """A9: the leader proposes Realign and does nothing until it is applied; then tick and dispatch are at its clock."""
    leader.schedule(T0 + 60_000)
    leader.pull(T0 + 60_000)
    assert leader.machine.tick == SECOND + 60
    now_ms = T0 + 59_499
    realign = leader.promote(now_ms)
    assert realign == Realign(SECOND + 59, now_ms, leader.machine.applied_index)
    assert leader.dispatcher.step(now_ms) is None
    (unit,) = leader.schedule(now_ms)
    assert leader.dispatcher.collect(now_ms) == NOTHING_RIDES
    assert realign is not None
    leader.propose(realign, now_ms=now_ms)
    leader.dispatcher.realigned(now_ms + 3)
    assert leader.machine.tick == SECOND + 59
    assert leader.pull(now_ms + 3) == []
    assert leader.pull(T0 + 60_000) == [unit], "it arrived under the old tick and was clamped to it"
    leader.commit(T0 + 60_000)
    assert leader.machine.tick == SECOND + 60


def test_a_realign_that_is_applied_after_stepping_down_starts_nothing(leader: Leader) -> None:
    """The new leader lost its leadership before its Realign came back."""
    leader.promote(T0, tick=SECOND + 2)
    leader.dispatcher.stop()
    leader.dispatcher.realigned(T0)
    assert leader.dispatcher.step(T0) is None


def test_a_tick_behind_jumps_to_the_clock_in_one_step(leader: Leader) -> None:
    """A9, behind: the first state of the new leader stands at its clock, without passing through what lies between."""
    leader.schedule(T0 + 100)
    leader.pull(T0 + 100)
    now_ms = T0 + 7 * HOUR_MS + 300
    crash_and_promote(leader, now_ms)
    leader.dispatcher.step(now_ms)
    assert leader.dispatcher.entry_due_ms() is not None
    leader.commit(now_ms)
    assert leader.machine.tick == now_ms // 1000


def test_overdue_is_paced_beside_what_is_due_now_and_never_before_it(make_leader: MakeLeader) -> None:
    """A9: each pull takes what is due now first; of what is overdue only so much per 10 ms; none of it is forgotten."""
    leader = make_leader(pace_per_step=10)
    overdue = leader.schedule(*[T0 - 60_000 + i for i in range(200)])
    fresh = leader.schedule(*range(T0 + 1, T0 + 101))
    crash_and_promote(leader, T0)
    found: list[int] = []
    waited = leader.dispatcher.handing_over.waited
    waited.wait(leader.subscription())
    for now_ms in range(T0, T0 + 100):
        got = leader.pull(now_ms, 30)
        due = [position for position in got if position in fresh]
        assert got[: len(due)] == due
        assert due == [fresh[i] for i in range(100) if T0 + 1 + i == now_ms]
        assert len(got) - len(due) <= 10
        found += got[len(due) :]
    assert found == overdue[:100], "ten each ten milliseconds, oldest first"
    found += leader.pull(T0 + 100)[1:]
    waited.take()
    assert leader.run(T0 + 101) == 9, "the leader wakes for the next ten"
    assert not waited.take()
    leader.run(T0 + 110)
    assert waited.take() == {leader.subscription()}, "and so do pulls that wait for them"
    for now_ms in range(T0 + 101, T0 + 301):
        found += leader.pull(now_ms)
    assert found == overdue


@pytest.mark.parametrize("window", [20, 1_000])
def test_hours_of_overdue_backlog_in_bounded_memory(make_leader: MakeLeader, window: int) -> None:
    """Several hours and topics: windows stay within their bounds, everything comes out once, what is due now passes."""
    leader = make_leader(window_per_topic=window, window_total=2 * window, pace_per_step=10_000)
    expected: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    for hour in range(-5, 1):
        for topic, count in (("a", 150), ("b", 40), ("c", 3)):
            rising = range(T0 + hour * HOUR_MS - 200_000, T0 + hour * HOUR_MS - 200_000 + 1_000 * count, 1_000)
            expected[topic] += leader.schedule(*rising, topic=topic)
    acked = expected["b"][::2]
    crash_and_promote(leader, T0 - 6 * HOUR_MS)
    crash_and_promote(leader, T0)
    (now,) = leader.schedule(T0 + 5, topic="a")
    leader.run(T0 + 5)
    assert leader.dispatcher.handing_over.ready_count <= 2 * window
    assert leader.pull(T0 + 5, 1, topic="a") == [now]
    leader.cancel(*acked)
    for topic, positions in expected.items():
        found: list[int] = []
        while got := leader.pull(T0 + 5, 7, topic=topic):
            assert leader.dispatcher.handing_over.ready_count <= 2 * window
            found += got
        assert sorted(found) == sorted(set(positions) - set(acked))
        hours = [position >> 40 for position in found]
        assert window < 1_000 or hours == sorted(hours)


def test_a_settled_past_costs_no_unit_read(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promotion looks at the states of a mostly settled hour and reads only the units that are left."""
    units = leader.schedule(*[T0 + 10] * 3_000)
    leader.drain(T0 + 10)
    leader.ack(units[:-2])
    crash_and_promote(leader, T0 + 40_000)
    read: list[int] = []
    units_of = leader.store.units

    def units_counted(positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
        read.append(len(positions))
        return units_of(positions)

    monkeypatch.setattr(leader.store, "units", units_counted)
    leader.run(T0 + 40_000)
    assert sum(read) == 2
    assert leader.hand_over(T0 + 40_000).position.tolist() == units[-2:]
