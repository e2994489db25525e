"""Receivers on trial: their crowds leave slots, the loop and their turn to others."""

from collections import Counter

import pytest

from node.push.lanes import PROVEN_MS, Bounds, Lanes
from node.push.trial import MOMENT_MS, TOGETHER, TOPIC_TOGETHER
from tests.node.push.test_lanes import add, positions, take_all, unit


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
