"""What registries ask of every row: a row that cannot be is refused by name."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest

from storage.format.level import FOUNDED, LEVELS
from storage.format.registry import BadRow, by_number, by_number_with_level


class Thing(NamedTuple):
    """A row of no registry."""

    number: int
    name: str
    since: int = FOUNDED


ROWS = [Thing(3, "three"), Thing(1, "one", LEVELS[1])]


def test_rows_stand_by_number_in_their_order() -> None:
    """As they were given."""
    assert list(by_number_with_level("thing", ROWS, range(1, 4)).items()) == [(3, ROWS[0]), (1, ROWS[1])]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (Thing(2, "one"), "thing one stands here twice"),
        (ROWS[0], "thing three stands here twice"),
        (Thing(1, "uno"), "thing uno: the number 1 is that of one"),
        (Thing(2, ""), "thing 2 has no name"),
        (Thing(0, "zero"), "thing zero: a number is 1 to 3, got 0"),
        (Thing(4, "four"), "thing four: a number is 1 to 3, got 4"),
        (Thing(True, "yes"), "thing yes: a number is 1 to 3, got True"),
        (Thing(2.0, "two"), "thing two: a number is 1 to 3, got 2.0"),  # type: ignore[arg-type]
        (Thing(2, "two", LEVELS[0] - 1), f"thing two: this build reads levels {LEVELS[0]} to {LEVELS[1]}, not 0"),
        (Thing(2, "two", LEVELS[1] + 1), "thing two: this build reads levels"),
    ],
)
def test_a_row_that_cannot_be_is_refused(row: Thing, says: str) -> None:
    """It says which, and why."""
    with pytest.raises(BadRow, match=f"^{says}"):
        by_number_with_level("thing", [*ROWS, row], range(1, 4))


def test_a_row_without_a_level_needs_none() -> None:
    """What stands in no file and in no entry."""
    rows = [SimpleNamespace(number=3, name="three"), SimpleNamespace(number=1, name="one")]
    assert by_number("thing", rows, range(1, 4)) == {3: rows[0], 1: rows[1]}
    with pytest.raises(BadRow, match="thing uno: the number 1 is that of one"):
        by_number("thing", [*rows, SimpleNamespace(number=1, name="uno")], range(1, 4))
