"""Held positions."""

import numpy as np

from node.hold import Holds
from node.ready import LaneKind


def test_a_unit_is_held_until_the_last_command_is_done() -> None:
    """Two cancels of one unit hold it twice; it comes back once, to where it was met."""
    holds = Holds()
    holds.add([7, 9])
    holds.add([7])
    assert holds.mask(np.array([7, 8, 9], np.uint64)).tolist() == [True, False, True]
    holds.put_aside(LaneKind.OVERDUE, 3, np.array([7], np.uint64))
    assert holds.drop([7]) == []
    assert holds.drop([7, 9]) == [(LaneKind.OVERDUE, 3, 7)]
    assert not holds.mask(np.array([7, 9], np.uint64)).any()
