"""Reading from the records what is ready: what leases that ended cost, and that none is passed over for good."""

from collections import Counter

import pytest

import node.leader.backlog
from node.leader.dispatcher import Dispatcher
from node.ready.windows import Ready
from replication.command.topic import PutTopic
from storage.checkpoint.hour_set import HourSet
from storage.format.array import U64
from storage.format.batches import StateColumns
from storage.format.position import HOUR_MS
from storage.hour.hour import Hour
from storage.store import Store
from tests.calls import calls_of
from tests.node.conftest import MakeLeader
from tests.node.one_leader import T0, Leader


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
    monkeypatch.setattr(node.leader.backlog, "LOOK_ROWS", 16)
    monkeypatch.setattr(node.leader.backlog, "LEASED_LOOK_ROWS", 64)
    units = leader.schedule(*[T0 + 5] * 200)
    assert leader.pull(T0 + 5) == units
    assert leader.ack(units[50:150]) == [0] * 100
    dispatcher: Dispatcher = leader.dispatcher
    leader.run(T0 + 31_000)
    assert dispatcher.handing_over.ready_count == 100
    assert sorted(leader.pull(T0 + 31_000)) == [*units[:50], *units[150:]]


def test_an_hour_begun_again_is_swept_from_its_first_unit(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its positions begin where those of the unlinked one ended, many pieces on: a promotion that began at the hour's
    first possible one would meet nothing there and take the hour for read."""
    monkeypatch.setattr(node.leader.backlog, "LOOK_ROWS", 16)
    leader.schedule(*[T0 + 5] * 100)
    leader.store.unlink(T0 // 3_600_000)
    (unit,) = leader.schedule(T0 + 7)
    assert unit == T0 // 3_600_000 << 40 | 100
    leader.promote(T0 + 1_000)
    assert leader.pull(T0 + 1_000) == [unit]


def test_hours_that_the_clock_leaps_over_are_read_a_few_a_step(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 23530: a leader led through a leap of 3,000 hours, and one step read each of them: its loop was held for
    129 ms. All of them come, and what arrives meanwhile for one of them; each once. The dispatch state waits for them
    (seed 23052)."""
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
            assert leader.dispatcher.dispatch_state().tick <= T0 // 1_000 + 10, "it names what was not read yet"
            if step == 20:
                units += leader.schedule(T0 + 95 * HOUR_MS + 7)
    assert step > 20
    leader.run(now_ms)
    assert leader.dispatcher.dispatch_state().tick == now_ms // 1_000
    assert max(used.values()) < 40, used
    assert sorted(leader.drain(now_ms)) == sorted(units)


def test_a_leap_over_hours_that_are_near_reads_no_second_of_them_at_once(make_leader: MakeLeader) -> None:
    """A leader led through a leap of three hours with a message in each second, and began to read 10,789 of them in one
    turn of its loop, 1.1 s. Those read before the leap come in their order, and each once."""
    leader = make_leader(inline_reads=False)
    leader.promote(T0)
    dispatcher = leader.dispatcher
    units = leader.schedule(*[T0 + second * 1_000 + 7 for second in range(3 * 3_600)])
    leader.run(T0)
    early = dispatcher.loads(T0)
    assert len(early) == 11
    for tick in early[:-1]:
        dispatcher.loaded(tick, leader.store.second(tick))
    now_ms = T0 + 3 * HOUR_MS - 1
    dispatcher.step(now_ms)
    assert dispatcher.loads(now_ms) == [now_ms // 1_000]
    dispatcher.loaded(early[-1], leader.store.second(early[-1]))  # its read took as long as the leap
    dispatcher.loaded(now_ms // 1_000, leader.store.second(now_ms // 1_000))
    assert leader.drain(now_ms) == units


def test_a_strict_message_goes_out_though_the_clock_went_back_past_its_lease(leader: Leader) -> None:
    """Its Lease, made by the clock as it is now, ends before what the clock has shown. It was taken for one that had
    ended, so each pull used up an attempt and handed nothing over, until the message was dead."""
    leader.propose(PutTopic("default", "orders", {"handover": "strict"}, replace=False))
    leader.promote(T0)
    (unit,) = leader.schedule(T0 + 1_000)
    leader.run(T0 + 60_000)
    now_ms = T0 + 1_000
    leader.run(now_ms)
    assert leader.hand_over(now_ms, lease_ms=5_000).position.tolist() == [unit]
    leader.propose(*leader.dispatcher.collect(now_ms).commands(), now_ms=now_ms)
    (made,) = leader.dispatcher.committed()
    assert leader.dispatcher.handing_over.strict.begin(made, now_ms).position.tolist() == [unit]


def test_a_piece_of_an_hour_ends_behind_its_last_unit(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each hour 65,536 places were looked at, whatever it held: a leader that looked through 3,000 hours with a
    message each needed 8 s instead of 1."""
    units = leader.schedule(*[T0 + hour * HOUR_MS for hour in range(5)])
    asked = calls_of(monkeypatch, Store, "state_only", lambda _, positions: len(positions))
    leader.promote(T0 + 5 * HOUR_MS)
    assert sorted(leader.drain(T0 + 5 * HOUR_MS)) == units
    assert 0 < max(asked) <= len(units)


def test_a_promotion_asks_for_the_states_alone_of_what_has_ended(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else of it was let go: to read it again took six times as long, and memory."""
    units = leader.schedule(*[T0] * 100)
    leader.cancel(*units[:90])
    asked = calls_of(monkeypatch, Store, "states", lambda _, positions: positions.tolist())
    leader.promote(T0 + 1)
    assert sorted(leader.drain(T0 + 1)) == units[90:]
    assert {position for positions in asked for position in positions} == set(units[90:])


@pytest.fixture
def topics_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many topics the units are that come into the windows at once, four at most."""
    monkeypatch.setattr(node.leader.backlog, "TOPICS_A_PIECE", 4)
    return calls_of(monkeypatch, Ready, "push_both", lambda _, overdue, topics, units, **__: len(set(topics.tolist())))


@pytest.mark.parametrize("promoted", [True, False])
def test_b6_a_step_has_units_of_so_many_topics(leader: Leader, topics_at_once: list[int], promoted: bool) -> None:
    """A leader promoted over 100,000 topics with a ready message each held its loop for 0.2 s a piece, and lost what it
    had just won; a step in which messages of 9,900 topics became due held it for 0.1 s."""
    topics = [f"t{number}" for number in range(10)]
    units: dict[str, list[int]] = {topic: [] for topic in topics}
    for times in (2, 1, 3):
        for topic in topics:
            units[topic] += leader.schedule(*[T0 + 5] * times, topic=topic)
    if promoted:
        leader.promote(T0 + 1_000)
    leader.run(T0 + 1_000)
    assert leader.dispatcher.handing_over.ready_count == 60
    assert {topic: sorted(leader.drain(T0 + 1_000, topic=topic)) for topic in topics} == units
    assert max(topics_at_once) == 4


def test_the_dispatch_state_waits_for_topics_that_a_step_has_no_time_for(
    leader: Leader, topics_at_once: list[int]
) -> None:
    """It says that all before it was dispatched."""
    leader.run(T0)
    units = [unit for number in range(20) for unit in leader.schedule(T0 + 1_500, topic=f"t{number}")]
    before, steps = leader.dispatcher.dispatch_state(), 0
    while leader.dispatcher.step(T0 + 1_500) == 0:
        steps += 1
        if leader.dispatcher.handing_over.ready_count < len(units):
            assert leader.dispatcher.dispatch_state() == before, "it names what was not read yet"
    assert steps > 2
    assert leader.dispatcher.dispatch_state() != before
    assert max(topics_at_once) == 4


def test_what_a_step_has_no_time_for_costs_no_look_at_the_others_of_its_hour(
    leader: Leader, topics_at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units lie as they came. Those from the first one due to the last were all read: of 1,000 topics with a million
    messages at whole minutes each minute's 17,000 took 2 s, and what came meanwhile was never caught up with."""
    asked = calls_of(monkeypatch, Store, "states", lambda _, positions: len(positions))
    read = calls_of(monkeypatch, Store, "units", lambda _, positions: len(positions))
    topics = [f"t{number}" for number in range(20)]
    units = [leader.schedule(T0 + 1_500, *[T0 + 60_000] * 50, topic=topic)[0] for topic in topics]
    while leader.dispatcher.step(T0 + 1_500) == 0:
        pass
    assert leader.dispatcher.handing_over.ready_count == len(units)
    assert not read
    assert sum(asked) <= len(units)


def test_what_a_step_has_no_time_for_may_be_cancelled_meanwhile(leader: Leader, topics_at_once: list[int]) -> None:
    """It stands in no window, where a cancelled one is passed over."""
    units = [unit for number in range(20) for unit in leader.schedule(T0 + 1_500, topic=f"t{number}")]
    assert leader.dispatcher.step(T0 + 1_500) == 0
    assert leader.dispatcher.handing_over.ready_count < len(units)
    leader.cancel(units[-1])
    leader.run(T0 + 1_500)
    assert leader.dispatcher.handing_over.ready_count == len(units) - 1


def test_hours_leaped_over_come_at_their_time_when_the_clock_goes_back(leader: Leader) -> None:
    """Most of them were not read yet. They wait for nothing but their due times, and none comes early or twice."""
    dues = [T0 + hour * HOUR_MS + 5 for hour in range(1, 21)]
    units = leader.schedule(*dues)
    leader.run(T0)
    leader.dispatcher.step(T0 + 20 * HOUR_MS + 10)
    units[10:10] = leader.schedule(T0 + 10 * HOUR_MS + 7)
    dues[10:10] = [T0 + 10 * HOUR_MS + 7]
    for unit, due_ms in zip(units, dues, strict=True):
        assert leader.drain(due_ms - 1) == []
        assert leader.drain(due_ms) == [unit]
        leader.ack([unit])
