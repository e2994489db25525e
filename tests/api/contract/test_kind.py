"""Kinds of values that are made from their bounds: at each bound, and past it."""

from typing import Any

import pytest

from api.contract.checker import Fault
from api.contract.kind import Kind, duration, text, whole
from api.port.port import Limits


@pytest.mark.parametrize(
    ("kind", "value", "read", "shown"),
    [
        (text(4), "a", "a", "a"),
        (text(4), "éé", "éé", "éé"),
        (whole(0, 9), 0, 0, 0),
        (whole(0, 9), 9, 9, 9),
        (duration("1ms", "2h"), "1ms", 1, "1ms"),
        (duration("1ms", "2h"), 7_200_000, 7_200_000, "2h"),
    ],
)
def test_at_the_bounds(kind: Kind, value: Any, read: Any, shown: Any) -> None:
    """It is taken, and shown as people write it."""
    assert kind.read(value, 0, Limits()) == read
    assert kind.show(read) == shown


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (text(4), "", "1 to 4 bytes of UTF-8, got 0"),
        (text(4), "ééa", "1 to 4 bytes of UTF-8, got 5"),
        (text(4), "a\n", "no control characters"),
        (text(4), 1, "expected a string, got a whole number"),
        (whole(0, 9), -1, "expected 0 to 9, got -1"),
        (whole(0, 9), 10, "expected 0 to 9, got 10"),
        (whole(0, 9), True, "a whole number"),
        (duration("1ms", "2h"), 0, "expected 1ms to 2h, got 0s"),
        (duration("1ms", "2h"), "7201s", "expected 1ms to 2h, got 7201s"),
        (duration("1ms", "2h"), "soon", "no duration"),
    ],
)
def test_past_the_bounds(kind: Kind, value: Any, says: str) -> None:
    """The refusal names the bound."""
    with pytest.raises(Fault, match=says):
        kind.read(value, 0, Limits())
