"""From the windows into the lanes: whose turn it is."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from node.push.lanes import Bounds, Lanes
from node.push.stage import TOPICS_A_TURN, Staging
from storage.format.array import U64
from tests.node.push.test_lanes import positions, topic, unit


class Dispatcher:
    """Topics in line; those without room leave it. No window holds anything."""

    def __init__(self, *topics: int) -> None:
        self.line = list(topics)
        self.looked: list[int] = []
        self.unstaged: list[int] = []
        self.lease_ahead = SimpleNamespace(subscriptions=list, stage=self.stage)
        self.staged = SimpleNamespace(take_ended=dict)  # none of them

    def next_pushing(self, most: int) -> list[int]:
        """The next in line."""
        return self.line[:most]

    def set_room(self, topic: int, room: bool) -> None:
        """Leave the line, or come back to it."""
        if room:
            self.line.append(topic)
        else:
            self.line.remove(topic)

    def stage(self, topic: int, most: int, now_ms: int) -> U64:
        """Looked at."""
        self.looked.append(topic)
        return np.zeros(0, np.uint64)

    def unstage(self, topic: int, positions: U64) -> None:
        """Back in the window."""
        self.unstaged += positions.tolist()


def test_b6_a_topic_whose_share_of_the_lanes_is_used_up_leaves_the_line() -> None:
    """It comes back when a unit of it has gone: until then no turn looks at it."""
    freed = [False]
    rooms = {1: 10, 2: 0, 3: 5}
    lanes = SimpleNamespace(take_put_back=set, take_freed=lambda: freed[0], left=1_000, room=rooms.__getitem__)
    topics = SimpleNamespace(topic_by_number=lambda _: SimpleNamespace(settings={"mode": "push"}))
    staging = Staging(cast(Any, SimpleNamespace(catalog=topics)), cast(Any, lanes), cast(Any, None))
    dispatcher = Dispatcher(1, 2, 3)
    leader_term = cast(Any, SimpleNamespace(handing_over=dispatcher))
    for _ in range(2):
        assert not staging.turn(leader_term, 0)
    assert dispatcher.line == [1, 3]
    assert dispatcher.looked == [1, 3, 1, 3]
    freed[0] = True
    rooms[2] = 1
    staging.turn(leader_term, 0)
    assert dispatcher.looked[4:] == [1, 3, 2]


def test_topics_without_room_are_looked_at_a_few_at_a_time() -> None:
    """One unit has gone. 20,000 topics that waited for room came back to the line in one turn of 40 ms."""
    topics = list(range(1, 3 * TOPICS_A_TURN + 2))
    freed, rooms = [False], dict.fromkeys(topics, 0)
    lanes = SimpleNamespace(take_put_back=set, take_freed=lambda: freed.pop(), left=1_000, room=rooms.__getitem__)
    catalog = SimpleNamespace(topic_by_number=lambda _: SimpleNamespace(settings={"mode": "push"}))
    staging = Staging(cast(Any, SimpleNamespace(catalog=catalog)), cast(Any, lanes), cast(Any, None))
    dispatcher = Dispatcher(*topics)
    leader_term = cast(Any, SimpleNamespace(handing_over=dispatcher))
    while dispatcher.line:
        freed.append(False)
        staging.turn(leader_term, 0)
    rooms.update(dict.fromkeys(topics, 1))
    freed.append(True)
    back: list[int] = []
    while len(back) < 4:
        before = len(dispatcher.line)
        staging.turn(leader_term, 0)
        back.append(len(dispatcher.line) - before)
        assert staging.more or len(back) == 4
        freed.append(False)
    assert back == [TOPICS_A_TURN] * 3 + [1]


def test_what_was_off_the_lanes_when_its_topic_changed_has_its_target_of_now() -> None:
    """Nothing of the topic is staged in that moment. It is put back with the target of before, and goes no further."""
    lanes = Lanes(Bounds())
    catalog = SimpleNamespace(topic_by_number=lambda number: topic(number, revision=2))
    staging = Staging(cast(Any, SimpleNamespace(catalog=catalog)), lanes, cast(Any, None))
    dispatcher = Dispatcher()
    leader_term = cast(Any, SimpleNamespace(handing_over=dispatcher))
    lanes.add(unit(7, of=1))
    taken = lanes.take(0)
    staging.on_topic(1)
    assert not staging.turn(leader_term, 0)
    assert not dispatcher.unstaged
    lanes.put_back(taken)
    assert staging.turn(leader_term, 0)
    assert dispatcher.unstaged == positions(taken) == [7]
    assert lanes.take(0) == []
