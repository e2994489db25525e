"""ClaimedUnits against a plain set."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.ready.claimed_units import ClaimedUnits
from storage.format.position import pack

POSITIONS = st.builds(pack, st.integers(400_000, 400_002), st.sampled_from([0, 1, 2, 4095, 4096, 9000]))
CHOICES = st.lists(st.sets(POSITIONS), max_size=12)


def column(positions: set[int]) -> npt.NDArray[np.uint64]:
    """In some order that is not the sorted one."""
    return np.array(sorted(positions, key=lambda position: position % 7), np.uint64)


@given(CHOICES)
def test_claims_are_a_set(choices: list[set[int]]) -> None:
    """Taking and freeing leaves exactly what a set would hold, over several hours and as they grow."""
    claims, model = ClaimedUnits(), set[int]()
    for chosen in choices:
        positions = column(chosen)
        assert claims.mask(positions).tolist() == [position in model for position in positions.tolist()]
        claimed = claims.mask(positions)
        claims.free(positions[claimed])
        claims.take(positions[~claimed])
        model ^= chosen
        assert len(claims) == len(model)
        claims.sweep()
    assert claims.mask(column(model)).all()


def test_claiming_twice_is_an_error_of_ours() -> None:
    """A unit that could come out twice stops the process before it does."""
    claims = ClaimedUnits()
    claims.take(column({pack(1, 2)}))
    with pytest.raises(AssertionError, match="claimed twice"):
        claims.take(column({pack(1, 2)}))
    claims.free(column({pack(1, 2)}))
    with pytest.raises(AssertionError, match="not claimed"):
        claims.free(column({pack(1, 2)}))


def test_hours_without_claims_cost_nothing() -> None:
    """The bytes of an hour go when nothing in it is claimed."""
    claims = ClaimedUnits()
    claims.take(column({pack(1, 2), pack(2, 2)}))
    claims.free(column({pack(1, 2)}))
    claims.sweep()
    assert list(claims._marks) == [2]
