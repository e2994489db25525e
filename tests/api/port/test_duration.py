"""Durations: one way to write each, nothing guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.duration import BadDuration, parse_duration, render_duration

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@given(st.integers(0, 10**15 - 1), st.sampled_from(sorted(_UNITS)))
def test_number_and_unit(number: int, unit: str) -> None:
    """A whole number with a unit is that many of the unit, and the integer is milliseconds."""
    assert parse_duration(f"{number}{unit}") == number * _UNITS[unit]
    assert parse_duration(number) == number


@given(st.integers(0, 10**14))
def test_rendering_is_read_back(value_ms: int) -> None:
    """What is written out reads back as the same duration."""
    assert parse_duration(render_duration(value_ms)) == value_ms


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [(0, "0s"), (250, "250ms"), (30_000, "30s"), (90_000, "90s"), (120_000, "2m"), (86_400_000, "1d")],
)
def test_rendering_takes_the_largest_exact_unit(value_ms: int, text: str) -> None:
    """The shortest exact text is written."""
    assert render_duration(value_ms) == text


@pytest.mark.parametrize(
    "value",
    ["", "s", "5", "-5s", "1.5s", "1h30m", "5 s", "5S", "\uff15s", "5s\n", "9" * 16 + "s"]
    + [-1, 1.0, True, None, [], {}, b"5s"],
)
def test_anything_else_is_refused(value: object) -> None:
    """Signs, fractions, sums, spaces, other digits and other types are no durations, and the text says what is."""
    with pytest.raises(BadDuration, match='"10s"'):
        parse_duration(value)


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_a_refusal(text: str) -> None:
    """No text gets another exception."""
    found: int | str
    try:
        found = parse_duration(text)
    except BadDuration as refusal:
        found = str(refusal)
    assert "whole number with one unit" in found if isinstance(found, str) else found >= 0
