"""Reading from the records what is ready: what leases that ended cost, and that none is passed over for good."""

from collections import Counter

import pytest

import node.sweep
from node.dispatcher import Dispatcher
from storage.array import U64
from storage.columns import StateColumns
from storage.hour import Hour
from storage.hour_set import HourSet
from storage.position import HOUR_MS
from storage.store import Store
from tests.node.leader import T0, Leader


def test_a_lease_that_ends_before_it_is_applied_is_looked_at_again(leader: Leader) -> None:
    """A disk stands still for 6 s: the entry with the Lease is given up as unknown and applied later. The look at the
    lease's end then comes before the dispatcher hears that its hand-over is committed, and passes over the unit."""
    (unit,) = leader.schedule(T0 + 5)
    leader.run(T0 + 5)
    assert leader.hand_over(T0 + 5, lease_ms=1000).position.tolist() == [unit]
    lease, *_ = leader.dispatcher.collect(T0 + 30)
    assert lease is not None
    leader.run(T0 + 6_000)
    leader.propose(lease, now_ms=T0 + 30)
    leader.run(T0 + 6_001)
    leader.dispatcher.committed()
    assert leader.pull(T0 + 6_100) == [unit]


def test_a_lease_that_was_refused_leaves_its_unit_ready(leader: Leader) -> None:
    """The entry was applied and its Lease took no effect: the unit is pending, due, and comes again."""
    (unit,) = leader.schedule(T0 + 5)
    leader.run(T0 + 5)
    assert leader.hand_over(T0 + 5).position.tolist() == [unit]
    leader.dispatcher.collect(T0 + 30)
    leader.dispatcher.committed()
    assert leader.pull(T0 + 40) == [unit]


def test_ended_leases_cost_what_is_leased_not_what_the_hour_holds(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two units at the ends of an hour of 4,000 are handed over together, so their lease's end names all between: the
    states of the others are not asked for. A leader that handed over 700/s of an hour of 2 M had no time left."""
    units = leader.schedule(T0 + 5, *[T0 + 3_000_000] * 4_000, T0 + 6)
    assert leader.pull(T0 + 6) == [units[0], units[-1]]
    asked = 0

    def counted(self: Store, positions: U64) -> StateColumns:
        nonlocal asked
        asked += len(positions)
        return states(self, positions)

    states = Store.states
    monkeypatch.setattr(Store, "states", counted)
    assert leader.pull(T0 + 31_000) == [units[0], units[-1]]
    assert asked < 50


def test_many_leases_that_end_together_are_read_in_pieces(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few a piece holds, all of them come again."""
    monkeypatch.setattr(node.sweep, "LOOK_ROWS", 16)
    monkeypatch.setattr(node.sweep, "LEASED_LOOK_ROWS", 64)
    units = leader.schedule(*[T0 + 5] * 200)
    assert leader.pull(T0 + 5) == units
    assert leader.ack(units[50:150]) == [0] * 100
    dispatcher: Dispatcher = leader.dispatcher
    leader.run(T0 + 31_000)
    assert dispatcher.ready_count == 100
    assert sorted(leader.pull(T0 + 31_000)) == [*units[:50], *units[150:]]


def test_an_hour_begun_again_is_swept_from_its_first_unit(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its positions begin where those of the unlinked one ended, many pieces on: a promotion that began at the hour's
    first possible one would meet nothing there and take the hour for read."""
    monkeypatch.setattr(node.sweep, "LOOK_ROWS", 16)
    leader.schedule(*[T0 + 5] * 100)
    leader.store.unlink(T0 // 3_600_000)
    (unit,) = leader.schedule(T0 + 7)
    assert unit == T0 // 3_600_000 << 40 | 100
    leader.promote(T0 + 1_000)
    assert leader.pull(T0 + 1_000) == [unit]


def test_hours_that_the_clock_leaps_over_are_read_a_few_a_step(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 23530: a leader led through a leap of 3,000 hours, and one step read each of them: its loop was held for
    129 ms. All of them come, and what arrives meanwhile for one of them; each once."""
    hours = range(1, 101)
    units = leader.schedule(*[T0 + hour * HOUR_MS + 5 for hour in hours])
    leader.run(T0)
    used: Counter[int] = Counter()
    step, use = 0, HourSet.use

    def counted(self: HourSet, number: int) -> Hour | None:
        used[step] += 1
        return use(self, number)

    now_ms = T0 + 100 * HOUR_MS + 10
    with monkeypatch.context() as patched:
        patched.setattr(HourSet, "use", counted)
        while leader.dispatcher.step(now_ms) == 0:
            step += 1
            if step == 20:
                units += leader.schedule(T0 + 95 * HOUR_MS + 7)
    assert step > 20
    assert max(used.values()) < 40, used
    assert sorted(leader.drain(now_ms)) == sorted(units)


def test_hours_leaped_over_come_at_their_time_when_the_clock_goes_back(leader: Leader) -> None:
    """Most of them were not read yet. They wait for nothing but their due times, and none comes early or twice."""
    dues = [T0 + hour * HOUR_MS + 5 for hour in range(1, 101)]
    units = leader.schedule(*dues)
    leader.run(T0)
    leader.dispatcher.step(T0 + 100 * HOUR_MS + 10)
    units[50:50] = leader.schedule(T0 + 50 * HOUR_MS + 7)
    dues[50:50] = [T0 + 50 * HOUR_MS + 7]
    for unit, due_ms in zip(units, dues, strict=True):
        assert leader.drain(due_ms - 1) == []
        assert leader.drain(due_ms) == [unit]
        leader.ack([unit])
