"""Held positions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.handover.holds import UnitHolds
from node.ready.topic_window import LaneKind, Queued
from storage.format.array import U64
from storage.tables.topic import subscription_of


def column(*positions: int) -> U64:
    """Positions."""
    return np.array(positions, np.uint64)


def named(*positions: int) -> tuple[U64, U64]:
    """Units that stand where their names say."""
    return column(*positions), column(*positions)


def test_a_unit_is_held_until_the_last_command_is_done() -> None:
    """Two cancels of one unit hold it twice; it comes back once, to where it was met."""
    holds = UnitHolds()
    holds.add(*named(7, 9))
    holds.add(*named(7))
    assert holds.mask(np.array([7, 8, 9], np.uint64)).tolist() == [True, False, True]
    holds.put_aside(LaneKind.OVERDUE, subscription_of(3), Queued.of(column(7), column(5), np.array([900])))
    assert holds.drop([7]) == []
    ((kind, topic, units),) = holds.drop([7, 9])
    assert (kind, topic, units.position.tolist(), units.tags.tolist()) == (LaneKind.OVERDUE, 3, [7], [5])
    assert units.due_ms.tolist() == [900]
    assert not holds.mask(np.array([7, 9], np.uint64)).any()


def test_units_of_one_window_come_back_together() -> None:
    """In the order in which they are named, one group a window: put back singly, 2,000 of them held a leader's loop for
    two seconds (a run beside a load of 8)."""
    holds = UnitHolds()
    holds.add(*named(1, 2, 3, 4))
    for place, kind, topic in ((3, LaneKind.CURRENT, 5), (1, LaneKind.CURRENT, 5), (4, LaneKind.OVERDUE, 5)):
        holds.put_aside(kind, subscription_of(topic), Queued.of(column(place), column(0), np.array([900 + place])))
    found = {(kind, topic): units.position.tolist() for kind, topic, units in holds.drop([1, 2, 3, 4])}
    assert found == {(LaneKind.CURRENT, 5): [1, 3], (LaneKind.OVERDUE, 5): [4]}


def test_a_hold_goes_where_its_message_goes() -> None:
    """Held by its home and by its place, moved twice: held where it stands now, and there only, until both are done.
    What stood aside where it was is told of."""
    holds = UnitHolds()
    holds.add(column(1), column(5))
    holds.add(*named(5))
    holds.put_aside(LaneKind.CURRENT, subscription_of(3), Queued.of(column(5), column(0), np.array([900])))
    assert holds.move(column(1, 2), column(5, 6), column(10, 11)).tolist() == [5]
    assert holds.move(column(1), column(10), column(20)).tolist() == []
    places = column(1, 5, 6, 10, 11, 20)
    assert holds.mask(places).tolist() == [False] * 5 + [True]
    holds.put_aside(LaneKind.CURRENT, subscription_of(3), Queued.of(column(20), column(0), np.array([900])))
    assert holds.drop([1]) == []
    ((_, _, units),) = holds.drop([5])
    assert units.position.tolist() == [20]
    assert not holds.mask(places).any()


def test_a_message_that_had_ended_is_held_when_it_lives_again() -> None:
    """Held by its home while it was dead elsewhere; a redrive brings it to a third place."""
    holds = UnitHolds()
    holds.add(*named(1))
    assert holds.move(column(1), column(5), column(9)).tolist() == []
    assert holds.mask(column(1, 5, 9)).tolist() == [False, False, True]
    assert holds.drop([1]) == []


MOVES = st.lists(st.tuples(st.sampled_from(["hold", "drop", "move"]), st.integers(0, 3), st.booleans()), max_size=40)


@given(MOVES)
def test_holds_follow_messages_against_plain_sets(steps: list[tuple[str, int, bool]]) -> None:
    """Four messages, held by home or by the place where they stand, moved at will: a message is held as long as it has
    holders, at its newest place and nowhere else."""
    holds, place = UnitHolds(), {home: home for home in range(4)}
    holders: list[tuple[int, int]] = []  # (message, the name it is held by)
    for fresh, (what, home, by_home) in enumerate(steps, start=10):
        if what == "hold":
            name = home if by_home else place[home]
            holds.add(column(name), column(place[home]))
            holders.append((home, name))
        elif what == "drop" and holders:
            holds.drop([holders.pop(home % len(holders))[1]])
        elif what == "move":
            holds.move(column(home), column(place[home]), column(fresh))
            place[home] = fresh
        held = {place[message] for message, _ in holders}
        known = column(*range(100))
        assert set(known[holds.mask(known)].tolist()) == held
