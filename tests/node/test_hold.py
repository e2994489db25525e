"""Held positions."""

import numpy as np

from node.hold import Holds
from node.window import LaneKind, Queued
from storage.array import U64


def column(*positions: int) -> U64:
    """Positions."""
    return np.array(positions, np.uint64)


def named(*positions: int) -> tuple[U64, U64]:
    """Units that stand where their names say."""
    return column(*positions), column(*positions)


def test_a_unit_is_held_until_the_last_command_is_done() -> None:
    """Two cancels of one unit hold it twice; it comes back once, to where it was met."""
    holds = Holds()
    holds.add(*named(7, 9))
    holds.add(*named(7))
    assert holds.mask(np.array([7, 8, 9], np.uint64)).tolist() == [True, False, True]
    holds.put_aside(LaneKind.OVERDUE, 3, Queued(np.array([7], np.uint64), np.array([5], np.uint64)))
    assert holds.drop([7]) == []
    ((kind, topic, units),) = holds.drop([7, 9])
    assert (kind, topic, units.position.tolist(), units.tags.tolist()) == (LaneKind.OVERDUE, 3, [7], [5])
    assert not holds.mask(np.array([7, 9], np.uint64)).any()
