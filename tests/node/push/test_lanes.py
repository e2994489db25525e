"""Lanes: nothing lost, bounds kept whatever comes, and fair between receivers and between topics."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.port.failure_code import NO_TARGET
from node.port.push_port import Origin, PushTarget
from node.push.lanes import IDLE_MAX, ILL_MS, ILL_TOGETHER, Bounds, Lanes
from node.push.target import BadTarget
from node.push.trial import MOMENT_MS
from node.push.unit import NOWHERE, StagedUnit
from storage.tables.topic import Topic, subscription_of
from tests.node.record import record

BOUNDS = Bounds(per_target=3, total=8, staged_per_topic=20, staged_total=40)


def topic(number: int, revision: int = 1) -> Topic:
    """A topic of this number."""
    return Topic(number=number, namespace="d", name=f"t{number}", settings={}, revision=revision, created_ms=0)


def unit(position: int, *, of: int = 1, host: str = "a", body: int = 2) -> StagedUnit:
    """A staged unit of topic `of` for this host, "" for a unit without target."""
    target: PushTarget | BadTarget = BadTarget(NO_TARGET, "none")
    if host:
        target = PushTarget(f"http://{host}/", Origin("http", host, 80), "POST", {}, 1000, None, b"")
    return StagedUnit(topic(of), subscription_of(of), position, record(topic=of, body=bytes(body)), target)


def add(lanes: Lanes, units: list[StagedUnit]) -> None:
    """Stage these, in this order."""
    for each in units:
        lanes.add(each)


def positions(units: list[StagedUnit]) -> list[int]:
    """Of these, in order."""
    return [each.position for each in units]


def end(lanes: Lanes, taken: list[StagedUnit], host: str, *, failed: bool | None = None) -> None:
    """The first of these attempts to this host ends."""
    at = next(at for at, each in enumerate(taken) if each.origin.host == host)
    lanes.done(taken.pop(at), 0, failed=failed)


def test_a_saturated_receiver_blocks_its_own_units_only() -> None:
    """Of one topic too: what goes elsewhere is taken past what waits."""
    lanes = Lanes(BOUNDS)
    add(lanes, [unit(number) for number in range(10)])
    add(lanes, [unit(20, host="b"), unit(21, host="")])
    taken = lanes.take(0)
    assert sorted(positions(taken)) == [0, 1, 2, 20, 21]
    assert lanes.take(0) == []
    end(lanes, taken, "a")
    assert positions(lanes.take(0)) == [3]
    assert (lanes.on_wire, lanes.staged) == (5, 6)


def test_topics_take_turns_at_a_receiver() -> None:
    """A topic with much does not push another one's few behind all of it."""
    lanes = Lanes(Bounds(per_target=100, total=1000))
    add(lanes, [unit(number, of=1) for number in range(10)])
    add(lanes, [unit(number, of=2) for number in range(20, 22)])
    assert positions(lanes.take(0))[:5] == [0, 20, 1, 21, 2]


def test_receivers_that_hang_leave_slots_for_others() -> None:
    """Four hang with all they may have; of eight slots in all there is one for a fifth, again and again."""
    lanes = Lanes(BOUNDS)
    for host in "abcd":
        add(lanes, [unit(number, host=host) for number in range(4)])
    lanes.take(0)
    assert lanes.on_wire < BOUNDS.total
    for round_number in range(10):
        add(lanes, [unit(100 + round_number, of=2, host="e")])
        (taken,) = lanes.take(0)
        assert taken.position == 100 + round_number
        lanes.done(taken, 0)


def test_what_may_not_go_is_first_in_line_again() -> None:
    """In the order in which it was taken, before what came meanwhile."""
    lanes = Lanes(BOUNDS)
    add(lanes, [unit(number) for number in range(5)])
    taken = lanes.take(0)
    lanes.put_back(taken)
    assert lanes.on_wire == 0
    assert positions(lanes.take(0)) == positions(taken) == [0, 1, 2]


def test_a_topics_units_can_be_taken_out_of_all_lanes() -> None:
    """Others stay, and lanes that have nothing are forgotten."""
    lanes = Lanes(BOUNDS)
    add(lanes, [unit(1, of=1, host="a"), unit(2, of=1, host="b"), unit(3, of=2, host="b")])
    assert lanes.revision(subscription_of(1)) == 1
    assert sorted(positions(lanes.drop(subscription_of(1)))) == [1, 2]
    assert (lanes.revision(subscription_of(1)), lanes.revision(subscription_of(2)), lanes.staged) == (None, 1, 1)
    assert positions(lanes.take(0)) == [3]


def test_staging_leaves_room_for_other_topics() -> None:
    """A topic has its bound, and never more than is free in all; what its units weigh counts the same way."""
    lanes = Lanes(BOUNDS)
    assert lanes.room(subscription_of(1)) == 20
    add(lanes, [unit(number, of=1) for number in range(20)])
    assert (lanes.room(subscription_of(1)), lanes.room(subscription_of(2))) == (0, 20)
    add(lanes, [unit(100 + number, of=2) for number in range(15)])
    assert (lanes.room(subscription_of(2)), lanes.room(subscription_of(3))) == (0, 5)
    heavy = Lanes(Bounds(staged_bytes=10_000))
    add(heavy, [unit(1, of=1, body=5_000)])
    assert heavy.room(subscription_of(1)) == 0
    assert heavy.room(subscription_of(2)) > 0


def take_all(lanes: Lanes, now_ms: int) -> list[StagedUnit]:
    """All that may go while the lanes ask for another look."""
    taken = lanes.take(now_ms)
    while (wait_ms := lanes.wait_ms(now_ms)) is not None:
        now_ms += wait_ms
        taken += lanes.take(now_ms)
    return taken


def fail(lanes: Lanes, host: str, times: int, now_ms: int = 0) -> None:
    """So many attempts to this host fail, one after the other."""
    for number in range(times):
        add(lanes, [unit(999, host=host)])
        taken = lanes.take(now_ms + number * MOMENT_MS)
        assert positions(taken) == [999]
        end(lanes, taken, host, failed=True)


def test_b15_ill_receivers_share_a_few_attempts_a_second() -> None:
    """20 topics to closed ports made 145 attempts a second, each with an entry of its own, while their messages
    lived."""
    lanes = Lanes(Bounds(per_target=20, total=100, staged_per_topic=1_000, staged_total=50_000))
    hosts = [f"h{number}" for number in range(20)]
    for host in hosts:
        fail(lanes, host, 9)
    for host in hosts:
        add(lanes, [unit(number, host=host) for number in range(100)])
    begun: Counter[str] = Counter()
    together: Counter[int] = Counter()
    for now_ms in range(10_000):
        for each in lanes.take(now_ms):
            begun[each.origin.host] += 1
            together[now_ms] += 1
            lanes.done(each, now_ms, failed=True)
    assert begun == dict.fromkeys(hosts, 10_000 // ILL_MS * ILL_TOGETHER // 20)
    assert together == dict.fromkeys(range(0, 10_000, ILL_MS), ILL_TOGETHER)


def test_ill_receivers_get_attempts_now_and_then() -> None:
    """A few together, in turn; a well one beside them goes at full speed. One success makes well."""
    lanes = Lanes(Bounds(per_target=100, total=1_000))
    for host in "ab":
        fail(lanes, host, 9)
    for host in "ab":
        add(lanes, [unit(number, host=host) for number in range(40)])
    add(lanes, [unit(100 + number, host="c") for number in range(10)])
    taken = lanes.take(0)
    assert Counter(each.origin.host for each in taken) == {"c": 10, "a": 8, "b": 8}
    assert [each.origin.host for each in taken[10:14]] == ["a", "b", "a", "b"]
    assert lanes.wait_ms(0) == ILL_MS
    assert lanes.take(ILL_MS - 1) == []
    assert lanes.wait_ms(ILL_MS - 1) == 1
    taken = lanes.take(ILL_MS)
    assert Counter(each.origin.host for each in taken) == {"a": 2, "b": 2}, "a tenth of the slots"
    end(lanes, taken, "a", failed=False)
    again = Counter(each.origin.host for each in lanes.take(ILL_MS + 1))
    assert again == {"a": 30}


def test_who_is_well_again_waits_for_no_turn_among_the_ill() -> None:
    """Of 40 ill receivers one answers: its next units go at once, not after the others' attempts."""
    lanes = Lanes(Bounds(per_target=100, total=1_000))
    hosts = [f"h{number}" for number in range(40)]
    for host in hosts:
        fail(lanes, host, 9)
    for host in hosts:
        add(lanes, [unit(number, host=host) for number in range(20)])
    taken = lanes.take(0)
    assert len(taken) == ILL_TOGETHER
    end(lanes, taken, "h0", failed=False)
    assert Counter(each.origin.host for each in lanes.take(1)) == {"h0": 19}


def test_ill_receivers_go_on_when_the_clock_has_gone_back() -> None:
    """A node that does not lead follows its wall clock, an hour back too: they are not left alone for that hour."""
    lanes = Lanes(Bounds(per_target=20, total=100))
    fail(lanes, "a", 9)
    add(lanes, [unit(1), unit(2), unit(3)])
    now_ms = 3_600_000
    taken = lanes.take(now_ms)
    assert positions(taken) == [1, 2]
    for _ in range(2):
        end(lanes, taken, "a", failed=True)
    assert lanes.take(now_ms) == []
    assert lanes.wait_ms(now_ms) == ILL_MS
    assert lanes.wait_ms(0) == 1
    assert positions(lanes.take(0)) == [3]
    assert lanes.take(0) == []


def test_an_ill_receiver_holds_a_tenth_of_the_slots() -> None:
    """The attempts it had when it fell ill end first."""
    lanes = Lanes(Bounds(per_target=20, total=100))
    add(lanes, [unit(number) for number in range(60)])
    taken = take_all(lanes, 0)
    assert len(taken) == 20
    for _ in range(18):
        end(lanes, taken, "a", failed=True)
    assert lanes.take(0) == []
    end(lanes, taken, "a", failed=True)
    assert len(lanes.take(0)) == 1
    assert lanes.on_wire == 2
    assert lanes.wait_ms(0) is None, "its slots are taken: there is nothing to wait for but their end"


def test_a_receiver_that_fails_now_and_then_is_well() -> None:
    """Every other attempt may fail without a pause; what says nothing of the receiver does not count."""
    lanes = Lanes(BOUNDS)
    for turn in range(50):
        add(lanes, [unit(turn)])
        taken = lanes.take(0)
        assert positions(taken) == [turn]
        end(lanes, taken, "a", failed=(None, True, False)[turn % 3])
    assert lanes.wait_ms(0) is None


def test_how_ill_a_receiver_is_outlives_its_units() -> None:
    """A message that comes back for its next try does not find a receiver that is well again; many are forgotten."""
    lanes = Lanes(BOUNDS)
    fail(lanes, "a", 9)
    assert lanes.staged == lanes.on_wire == 0
    add(lanes, [unit(1), unit(2)])
    taken = lanes.take(0)
    assert len(taken) == 1
    assert lanes.take(0) == []
    lanes.clear()
    end(lanes, taken, "a")
    for number in range(IDLE_MAX):
        fail(lanes, f"h{number}", 1, number * MOMENT_MS)
    add(lanes, [unit(1), unit(2)])
    assert len(lanes.take(0)) == 2


def test_an_end_without_a_beginning_is_a_fault() -> None:
    """It would let more than the bound onto the wire."""
    lanes = Lanes(BOUNDS)
    add(lanes, [unit(1)])
    with pytest.raises(AssertionError, match="never began"):
        lanes.done(unit(1), 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3), st.sampled_from(["a", "b", "c", "d", ""])),
        st.tuples(st.just("take"), st.just(0), st.just("")),
        st.tuples(st.just("end"), st.integers(0, 30), st.just("")),
        st.tuples(st.just("back"), st.integers(0, 30), st.just("")),
        st.tuples(st.just("drop"), st.integers(1, 3), st.just("")),
    ),
    max_size=60,
)


@given(STEPS)
def test_nothing_is_lost_and_no_bound_is_broken(steps: list[tuple[str, int, str]]) -> None:
    """Against a model: per topic and receiver units leave in the order in which they came, and all can leave."""
    lanes = Lanes(BOUNDS)
    waiting: dict[tuple[int, Origin], deque[int]] = {}
    wire: list[StagedUnit] = []
    for position, (step, number, host) in enumerate(steps):
        if step == "add":
            made = unit(position, of=number, host=host)
            lanes.add(made)
            waiting.setdefault((number, made.origin), deque()).append(position)
        elif step == "take":
            for taken in lanes.take(0):
                assert waiting[taken.topic.number, taken.origin].popleft() == taken.position
                wire.append(taken)
        elif step == "end" and wire:
            lanes.done(wire.pop(number % len(wire)), 0)
        elif step == "back" and wire:
            last = wire.pop()
            lanes.put_back([last])
            waiting[last.topic.number, last.origin].appendleft(last.position)
        elif step == "drop":
            expected = [queue.pop() for (its, _), queue in waiting.items() if its == number for _ in range(len(queue))]
            assert sorted(positions(lanes.drop(subscription_of(number)))) == sorted(expected)
        assert lanes.on_wire == len(wire) <= BOUNDS.total
        assert max(Counter(each.origin for each in wire).values(), default=0) <= BOUNDS.per_target
        assert lanes.staged == sum(map(len, waiting.values()))
        staged = {number for (number, _), queue in waiting.items() if queue}
        assert {number for number in range(1, 10) if lanes.revision(subscription_of(number)) is not None} == staged
    now_ms = 0
    while lanes.staged or wire:
        for each in wire:
            lanes.done(each, now_ms)
        now_ms += MOMENT_MS
        wire = lanes.take(now_ms)
        assert wire or not lanes.staged, "units wait, slots are free, and nothing goes"
    assert lanes.bytes == lanes.on_wire == 0
    assert NOWHERE not in {each.origin for each in wire}
