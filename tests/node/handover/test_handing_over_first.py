"""First attempts of several topics in one look: all of them or none, and none changes nothing."""

import numpy as np
import pytest

from node.handover.lease_book import SEVERAL
from tests.node.one_leader import LEASE_MS, T0, Leader


def staged(leader: Leader, now_ms: int) -> tuple[list[int], list[int]]:
    """Two units of each of two topics, their rows of the index read."""
    first, second = leader.schedule(T0 + 1, T0 + 2), leader.schedule(T0 + 1, T0 + 2, topic="bills")
    leader.run(now_ms)
    for topic, units in (("orders", first), ("bills", second)):
        assert leader.dispatcher.handing_over.stage(leader.subscription(topic), 9, now_ms).tolist() == units
    read = leader.dispatcher.handing_over.read_staged(np.array(first + second, np.uint64))
    assert read["due_ms"].tolist() == [T0 + 1, T0 + 2] * 2
    return first, second


def send_first(leader: Leader, units: list[int], now_ms: int, *, trusted: bool = True) -> list[int] | None:
    """Hand them over if all may go."""
    positions = np.array(units, np.uint64)
    made = leader.dispatcher.handing_over.hand_over_first(positions, LEASE_MS, now_ms, trusted=trusted)
    if made is None:
        return None
    assert (made.subscription, made.lease_end_ms, set(made.attempt.tolist())) == (SEVERAL, now_ms + LEASE_MS, {1})
    assert made.due_ms.tolist() == [T0 + 1, T0 + 2] * (len(units) // 2)
    went: list[int] = made.position.tolist()
    return went


def send_by_topic(leader: Leader, topic: str, units: list[int], now_ms: int) -> list[int]:
    """Topic by topic, as the pump does where not all may go."""
    positions = np.array(units, np.uint64)
    made, _ = leader.dispatcher.handing_over.hand_over_staged(
        leader.subscription(topic), positions, LEASE_MS, now_ms, trusted=True
    )
    went: list[int] = made.position.tolist()
    return went


def test_units_of_several_topics_go_together(leader: Leader) -> None:
    """Leased and acknowledged as any other; their claims end with the Lease."""
    first, second = staged(leader, T0 + 5)
    assert send_first(leader, first + second, T0 + 5) == first + second
    leader.commit(T0 + 5)
    assert len(leader.dispatcher._claims) == 0
    assert set(leader.ack(first + second)) == {0}
    assert send_by_topic(leader, "orders", [], T0 + 6) == []


@pytest.mark.parametrize("together", [True, False])
def test_the_index_is_read_once(leader: Leader, monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """When they are staged: their hand-over has the rows, those of another unit that steps aside left out. Units whose
    rows were not read do not go together, and are read topic by topic."""
    first, second = staged(leader, T0 + 5)
    rows = leader.store.units(np.array(second, np.uint64))
    if not together:
        leader.dispatcher.handing_over.hold(second[:1])
    with monkeypatch.context() as patch:
        patch.setattr(leader.store, "units", lambda positions: 1 / 0)
        assert (send_first(leader, first + second, T0 + 5) is not None) == together
        if not together:
            made, _ = leader.dispatcher.handing_over.hand_over_staged(
                leader.subscription("bills"), np.array(second, np.uint64), LEASE_MS, T0 + 5, trusted=True
            )
            assert made.units.tobytes() == rows[1:].tobytes()
    unread = leader.schedule(T0 + 7)
    leader.run(T0 + 9)
    assert leader.dispatcher.handing_over.stage(leader.subscription(), 9, T0 + 9).tolist() == unread
    assert send_first(leader, unread, T0 + 9) is None
    assert send_by_topic(leader, "orders", unread, T0 + 9) == unread


@pytest.mark.parametrize("why", ["paused", "held", "ended", "clock back", "no trust"])
def test_where_one_may_not_go_nothing_changes(leader: Leader, why: str) -> None:
    """All are staged as they were, and the others go topic by topic."""
    first, second = staged(leader, T0 + 5)
    if why == "paused":
        leader.pause("bills", True)
    elif why == "held":
        leader.dispatcher.handing_over.hold([second[0]])
    elif why == "ended":
        leader.cancel(second[0])
    now_ms = T0 if why == "clock back" else T0 + 5
    assert send_first(leader, first + second, now_ms, trusted=why != "no trust") is None
    assert send_by_topic(leader, "orders", first, T0 + 5) == first
    going = {"paused": [], "held": second[1:], "ended": second[1:]}.get(why, second)
    assert send_by_topic(leader, "bills", second, T0 + 5) == going


def test_a_second_attempt_is_not_a_first(leader: Leader) -> None:
    """Its number is the records' to say, and its limit is asked."""
    first, second = staged(leader, T0 + 5)
    assert send_first(leader, first + second, T0 + 5) is not None
    leader.commit(T0 + 5)
    later_ms = T0 + 5 + LEASE_MS + 200
    leader.run(later_ms)
    leader.run(later_ms + 20)
    again = leader.dispatcher.handing_over.stage(leader.subscription(), 9, later_ms + 20).tolist()
    assert sorted(again) == sorted(first)
    assert send_first(leader, again, later_ms + 20) is None
    made = leader.dispatcher.handing_over.hand_over_staged(
        leader.subscription(), np.array(again, np.uint64), LEASE_MS, later_ms + 20, trusted=True
    )
    assert made.hand_over.attempt.tolist() == [2, 2]


def test_after_stepping_down_nothing_goes(leader: Leader) -> None:
    """What was staged is forgotten."""
    first, second = staged(leader, T0 + 5)
    leader.dispatcher.stop()
    assert send_first(leader, first + second, T0 + 5) is None
