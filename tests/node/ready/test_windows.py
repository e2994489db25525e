"""Ready windows: order, bounds, backlog."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.ready.claimed_units import ClaimedUnits
from node.ready.topic_window import LaneKind, Queued
from node.ready.windows import Ready
from storage.format.array import U64
from storage.format.position import pack
from storage.tables.topic import subscription_of

BASE = pack(400_000, 0)
CURRENT = LaneKind.CURRENT


def column(*indexes: int) -> U64:
    """Positions of one hour."""
    return np.array(indexes, np.uint64) + np.uint64(BASE)


def queued(*indexes: int) -> Queued:
    """Units of one hour; each has its index as its mask."""
    return Queued.of(column(*indexes), np.array(indexes, np.uint64), np.array(indexes, np.int64))


def push(ready: Ready, topic: int, *indexes: int, swept: bool = False) -> None:
    """Units of one topic."""
    ready.push(CURRENT, np.full(len(indexes), topic, np.uint32), queued(*indexes), swept=swept)


def take(ready: Ready, topic: int, most: int) -> list[int]:
    """The next indexes of a topic."""
    units = ready.take(CURRENT, subscription_of(topic), most)
    indexes: list[int] = (units.position - np.uint64(BASE)).tolist()
    assert units.tags.tolist() == indexes, "masks stay beside their units"
    return indexes


def invariants(ready: Ready, claims: ClaimedUnits) -> None:
    """Windows are never empty, the count is right, and what is in a window is claimed."""
    windows = [window for lane in ready.lanes for window in lane.windows.values()]
    assert all(window.count for window in windows)
    assert ready.count == sum(window.count for window in windows)
    assert len(claims) >= ready.count
    for lane in ready.lanes:
        assert lane.hungry <= lane.begins.keys()


def test_b6_topics_to_be_pushed_stand_in_line() -> None:
    """All ready topics were walked in every turn of the pump, pulled and paused ones too. Those in push mode with a
    window and room for more come in their turn; the others are not looked at."""
    ready = Ready(ClaimedUnits(), per_topic=10, total=1_000)
    for topic in (1, 2, 3, 4, 5):
        ready.set_pushed(subscription_of(topic), topic != 2)
    for topic in (1, 2, 3, 4):
        push(ready, topic, 10 * topic)
    assert [ready.next_pushing(2) for _ in range(3)] == [[1, 3], [4, 1], [3, 4]]
    assert ready.next_pushing(10) == [1, 3, 4]
    ready.set_room(subscription_of(3), False)
    ready.set_pushed(subscription_of(2), True)
    assert ready.next_pushing(10) == [1, 4, 2]
    ready.set_pushed(subscription_of(4), False)
    take(ready, 1, 1)
    push(ready, 5, 50)
    assert ready.next_pushing(10) == [2, 5]
    ready.set_room(subscription_of(3), True)
    ready.put_back(CURRENT, subscription_of(1), queued(10))
    assert ready.next_pushing(10) == [2, 5, 3, 1]


def test_topics_keep_their_order_and_nothing_comes_twice() -> None:
    """Units of several topics in one push; a unit that is claimed already is left out."""
    claims = ClaimedUnits()
    ready = Ready(claims, per_topic=10, total=100)
    ready.push(CURRENT, np.array([2, 1, 2, 1], np.uint32), queued(5, 6, 3, 9))
    push(ready, 2, 3, 4)
    assert take(ready, 2, 10) == [5, 3, 4]
    assert take(ready, 1, 1) == [6]
    push(ready, 1, 6, 9, 10)
    assert take(ready, 1, 10) == [9, 10], "taken units stay claimed until they are applied"
    invariants(ready, claims)


def test_past_its_bound_a_topic_remembers_where_its_backlog_begins() -> None:
    """The window fills, the rest is one position; what comes later queues behind it; other topics are not touched."""
    claims = ClaimedUnits()
    ready = Ready(claims, per_topic=4, total=100)
    push(ready, 1, 0, 1, 2, 3, 8, 7)
    push(ready, 1, 9)
    push(ready, 2, 20)
    assert ready.lanes[CURRENT].begins == {1: BASE + 7}
    assert ready.hungry(CURRENT) == []
    assert take(ready, 1, 2) == [0, 1]
    assert ready.hungry(CURRENT) == [1]
    push(ready, 1, 10)
    assert take(ready, 1, 4) == [2, 3], "10 waits behind the backlog"
    assert take(ready, 2, 4) == [20]
    ready.swept(CURRENT, [subscription_of(1)], BASE + 100)
    push(ready, 1, 7, 8, 9, 10, 11, swept=True)
    assert ready.lanes[CURRENT].begins == {1: BASE + 11}
    assert take(ready, 1, 9) == [7, 8, 9, 10]
    ready.swept(CURRENT, [subscription_of(1)], None)
    assert ready.hungry(CURRENT) == []
    assert not ready.lanes[CURRENT].begins
    invariants(ready, claims)


def test_slow_topics_give_way_when_memory_is_full() -> None:
    """The total holds: the largest windows are cut to their share, and a new topic finds room at once."""
    claims = ClaimedUnits()
    ready = Ready(claims, per_topic=40, total=80)
    push(ready, 1, *range(100, 140))
    push(ready, 2, *range(200, 240))
    push(ready, 3, *range(300, 330))
    assert ready.count <= 80
    assert take(ready, 3, 5) == [300, 301, 302, 303, 304]
    begins = ready.lanes[CURRENT].begins
    assert begins[subscription_of(1)] - BASE == 100 + ready.waiting(CURRENT, subscription_of(1))
    assert not claims.mask(column(139)).any(), "what was cut off is free to be found again"
    invariants(ready, claims)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(0, 9)), max_size=40))
def test_every_unit_is_in_a_window_or_in_the_backlog(steps: list[tuple[int, int, int]]) -> None:
    """Random pushes and takes: each unit is taken once, stands in a window, or lies at or behind its topic's begin."""
    claims = ClaimedUnits()
    ready = Ready(claims, per_topic=8, total=16)
    fresh, pushed, taken = 0, dict[int, int](), set[int]()
    for topic, pushes, takes in steps:
        push(ready, topic, *range(fresh, fresh + pushes))
        pushed |= dict.fromkeys(range(fresh, fresh + pushes), topic)
        fresh += pushes
        got = take(ready, topic, takes)
        assert not taken & set(got)
        taken |= set(got)
        invariants(ready, claims)
        assert ready.count <= 16
        for index, its_topic in pushed.items():
            begin = ready.lanes[CURRENT].begins.get(subscription_of(its_topic), 1 << 63)
            assert claims.mask(column(index)).all() or BASE + index >= begin
