"""Lanes: nothing lost, bounds kept whatever comes, and fair between receivers and between topics."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from node.push_lane import IDLE_MAX, ILL_MS, ILL_TOGETHER, PROVEN_MS, Bounds, Lanes
from node.push_target import BadTarget, Origin, PushTarget
from node.push_trial import MOMENT_MS, TOGETHER, TOPIC_TOGETHER
from node.push_unit import NOWHERE, StagedUnit
from node.retry import NO_TARGET
from storage.topic import Topic
from tests.node.push_attempt import record

BOUNDS = Bounds(per_target=3, total=8, staged_per_topic=20, staged_total=40)


def topic(number: int, revision: int = 1) -> Topic:
    """A topic of this number."""
    return Topic(number=number, namespace="d", name=f"t{number}", settings={}, revision=revision, created_ms=0)


def unit(position: int, *, of: int = 1, host: str = "a", body: int = 2) -> StagedUnit:
    """A staged unit of topic `of` for this host, "" for a unit without target."""
    target: PushTarget | BadTarget = BadTarget(NO_TARGET, "none")
    if host:
        url = URL(f"http://{host}/")
        target = PushTarget(url, Origin("http", host, 80), "POST", {}, 1000, None, b"")
    return StagedUnit(topic(of), position, record(topic=of, body=bytes(body)), target)


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
    assert lanes.revision(1) == 1
    assert sorted(positions(lanes.drop(1))) == [1, 2]
    assert (lanes.revision(1), lanes.revision(2), lanes.staged) == (None, 1, 1)
    assert positions(lanes.take(0)) == [3]


def test_staging_leaves_room_for_other_topics() -> None:
    """A topic has its bound, and never more than is free in all; what its units weigh counts the same way."""
    lanes = Lanes(BOUNDS)
    assert lanes.room(1) == 20
    add(lanes, [unit(number, of=1) for number in range(20)])
    assert (lanes.room(1), lanes.room(2)) == (0, 20)
    add(lanes, [unit(100 + number, of=2) for number in range(15)])
    assert (lanes.room(2), lanes.room(3)) == (0, 5)
    heavy = Lanes(Bounds(staged_bytes=10_000))
    add(heavy, [unit(1, of=1, body=5_000)])
    assert heavy.room(1) == 0
    assert heavy.room(2) > 0


def fail(lanes: Lanes, host: str, times: int, now_ms: int = 0) -> None:
    """So many attempts to this host fail, one after the other."""
    for number in range(times):
        add(lanes, [unit(999, host=host)])
        taken = lanes.take(now_ms + number * MOMENT_MS)
        assert positions(taken) == [999]
        end(lanes, taken, host, failed=True)


def test_b11_a_topic_that_names_many_receivers_that_hang_leaves_slots_for_others() -> None:
    """2,300 messages to as many names took all 2,000 slots, and nothing was pushed to anybody for five minutes. What is
    on trial leaves a tenth of the slots, a topic's trials as many as a third of themselves; who answered within the
    last minute goes on."""
    lanes = Lanes(Bounds(per_target=100, total=200, staged_per_topic=1_000, staged_total=5_000))
    add(lanes, [unit(1, of=1, host="good")])
    (first,) = lanes.take(0)
    lanes.done(first, 0, failed=False)
    add(lanes, [unit(number, of=2, host=f"h{number}") for number in range(300)])
    hang = take_all(lanes, 0)
    assert len(hang) == 150
    add(lanes, [unit(1_000 + number, of=3, host="new") for number in range(10)])
    add(lanes, [unit(2_000 + number, of=2, host="good") for number in range(10)])
    found = take_all(lanes, 1_000)
    assert Counter(each.origin.host for each in found) == {"new": 10, "good": 10}
    for each in found:
        lanes.done(each, 1_000, failed=False)
    for number in range(4, 14):  # ten more topics do the same
        add(lanes, [unit(number * 1_000 + at, of=number, host=f"h{number}-{at}") for at in range(30)])
    hang += take_all(lanes, 2_000)
    assert len(hang) == 180
    add(lanes, [unit(3_000 + number, of=3, host="new") for number in range(20)])
    assert len(lanes.take(3_000)) == 10, "a receiver has as many slots as are left"
    add(lanes, [unit(4_000, of=14, host="newer")])
    assert lanes.take(1_000 + PROVEN_MS) == [], "nor is an answer of long ago one that counts"
    went: set[str] = set()
    while hang and "newer" not in went:
        for each in hang:
            lanes.done(each, 2_000, failed=True)
        hang = take_all(lanes, 1_000 + PROVEN_MS)
        went |= {each.origin.host for each in hang}
    assert "newer" in went


def take_all(lanes: Lanes, now_ms: int) -> list[StagedUnit]:
    """All that may go while the lanes ask for another look."""
    taken = lanes.take(now_ms)
    while (wait_ms := lanes.wait_ms(now_ms)) is not None:
        now_ms += wait_ms
        taken += lanes.take(now_ms)
    return taken


def crowd(lanes: Lanes, of: int, count: int) -> None:
    """So many units of a topic, each to a receiver of its own that never answered."""
    add(lanes, [unit(of * 10_000 + number, of=of, host=f"h{of}-{number}") for number in range(count)])


ROOM = Bounds(per_target=100, total=2_000, staged_per_topic=5_000, staged_total=20_000)


def test_b11_a_crowd_of_strangers_begins_a_few_at_a_time() -> None:
    """2,300 receivers of one batch were all connected to as fast as the loop could: pulls and pushes of others were
    late by 0.1 s. Who has answered waits for none of them."""
    lanes = Lanes(ROOM)
    add(lanes, [unit(1, of=1, host="good")])
    lanes.done(lanes.take(0)[0], 0, failed=False)
    crowd(lanes, 2, 1_000)
    now_ms, begun = 100, 0
    while lanes.staged:
        add(lanes, [unit(9_000 + now_ms, of=1, host="good")])
        hosts = Counter(each.origin.host for each in lanes.take(now_ms))
        assert hosts.pop("good") == 1
        assert len(hosts) <= TOPIC_TOGETHER
        begun += len(hosts)
        now_ms += lanes.wait_ms(now_ms) or MOMENT_MS
    assert begun == 1_000
    assert now_ms - 100 <= (1_000 // TOPIC_TOGETHER + 1) * MOMENT_MS, "no moment passes unused"


@pytest.mark.parametrize("crowds", [1, 2, 3, 10])
def test_b11_strangers_of_other_topics_do_not_wait_behind_crowds(crowds: int) -> None:
    """Two crowds used up each moment's attempts before the stranger of a third topic, who had waited for longer."""
    lanes = Lanes(ROOM)
    for number in range(crowds):
        crowd(lanes, 2 + number, 500)
    begun = Counter(each.topic.number for each in lanes.take(0))
    assert sum(begun.values()) == min(TOGETHER, crowds * TOPIC_TOGETHER)
    add(lanes, [unit(1, of=1, host="stranger")])
    assert 1 in [each.topic.number for each in (*lanes.take(1), *lanes.take(MOMENT_MS))]


def test_b11_what_may_go_is_looked_at_whoever_has_no_room() -> None:
    """The lanes looked at were all of a topic at its bound, so nobody looked again at the one that had room."""
    lanes = Lanes(ROOM)
    crowd(lanes, 2, 2_000)
    hang = take_all(lanes, 0)
    assert (len(hang), lanes.staged) == (1_500, 500)
    crowd(lanes, 3, 12)
    crowd(lanes, 4, 4)
    assert len(lanes.take(100_000)) == TOGETHER
    add(lanes, [unit(1, of=1, host="stranger")])
    assert lanes.take(100_003) == []
    assert lanes.wait_ms(100_003) == MOMENT_MS - 3
    assert positions(lanes.take(100_000 + MOMENT_MS)) == [1]


def test_b11_several_units_for_one_stranger_begin_like_those_for_several() -> None:
    """Each may need a connection. When it has answered all others go."""
    lanes = Lanes(ROOM)
    add(lanes, [unit(number, host="a") for number in range(85)])
    taken = lanes.take(0)
    assert len(taken) == TOPIC_TOGETHER
    lanes.done(taken[0], 5, failed=False)
    assert len(lanes.take(5)) == 85 - TOPIC_TOGETHER
    assert lanes.wait_ms(5) is None


def test_b11_a_receiver_that_several_topics_name_waits_under_each() -> None:
    """One of them is at its bound; the other's unit goes."""
    lanes = Lanes(Bounds(per_target=100, total=200, staged_per_topic=1_000, staged_total=5_000))
    crowd(lanes, 2, 300)
    assert len(take_all(lanes, 0)) == 150
    add(lanes, [unit(1, of=2, host="both"), unit(2, of=3, host="both")])
    assert positions(lanes.take(10_000)) == [2]


def test_receivers_that_answer_are_known_though_there_are_many() -> None:
    """With 1,000 of them remembered, 1,200 in turn were on trial for ever."""
    lanes = Lanes(ROOM)
    for round_ in range(3):
        for number in range(2_000):
            now_ms = round_ * 30_000 + number * 15
            add(lanes, [unit(number, host=f"r{number}")])
            taken = lanes.take(now_ms)
            while not taken:
                now_ms += lanes.wait_ms(now_ms) or 1_000_000
                assert not round_, "it answered half a minute ago"
                taken = lanes.take(now_ms)
            lanes.done(taken[0], now_ms, failed=False)


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
            assert sorted(positions(lanes.drop(number))) == sorted(expected)
        assert lanes.on_wire == len(wire) <= BOUNDS.total
        assert max(Counter(each.origin for each in wire).values(), default=0) <= BOUNDS.per_target
        assert lanes.staged == sum(map(len, waiting.values()))
        staged = {number for (number, _), queue in waiting.items() if queue}
        assert {number for number in range(1, 10) if lanes.revision(number) is not None} == staged
    now_ms = 0
    while lanes.staged or wire:
        for each in wire:
            lanes.done(each, now_ms)
        now_ms += MOMENT_MS
        wire = lanes.take(now_ms)
        assert wire or not lanes.staged, "units wait, slots are free, and nothing goes"
    assert lanes.bytes == lanes.on_wire == 0
    assert NOWHERE not in {each.origin for each in wire}
