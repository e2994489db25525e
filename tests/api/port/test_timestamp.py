"""Times: deadlines round up, seconds are refused, the column form writes what the single form writes."""

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.timestamp import (
    LAST_MS,
    SECONDS_BELOW,
    TIME_BLANK,
    TIME_TEXT,
    BadTime,
    parse_time,
    render_time,
    write_times,
)

_FIRST_MS = -62_135_596_800_000
_ANY_MS = st.integers(_FIRST_MS, LAST_MS)


@given(_ANY_MS)
def test_rendering_is_read_back(value_ms: int) -> None:
    """Every writable millisecond has one text of 24 characters that reads back as itself."""
    text = render_time(value_ms)
    assert len(text) == 24
    assert parse_time(text) == value_ms
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value_ms)


@given(st.lists(_ANY_MS, min_size=1, max_size=50))
def test_columns_write_the_same(values: list[int]) -> None:
    """The vectorised writing equals the single one, over leap years and negative times."""
    texts = np.frombuffer(bytearray(TIME_BLANK * len(values)), TIME_TEXT)
    write_times(texts, np.array(values, np.int64))
    assert [row.tobytes().decode() for row in texts] == [render_time(value) for value in values]


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),
    st.from_regex(r"[0-9]{1,20}", fullmatch=True),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_finer_digits_round_up(moment: datetime, digits: str, offset_minutes: int) -> None:
    """The first whole millisecond that is not before what was asked, whatever the offset."""
    whole = moment.replace(microsecond=0)
    sign = "-" if offset_minutes < 0 else "+"
    hours, minutes = divmod(abs(offset_minutes), 60)
    text = f"{whole.isoformat()}.{digits}{sign}{hours:02d}:{minutes:02d}"
    zone = timezone(timedelta(minutes=offset_minutes))
    base = whole.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)
    exact = Fraction(base // timedelta(seconds=1)) * 1000 + Fraction(int(digits), 10 ** len(digits)) * 1000
    found = parse_time(text)
    assert found >= exact
    assert found - exact < 1


@given(st.integers(max_value=SECONDS_BELOW - 1))
def test_seconds_are_refused(value: int) -> None:
    """An integer below 10^11 is no time in milliseconds, and the text says that it looks like seconds."""
    with pytest.raises(BadTime, match="looks like seconds"):
        parse_time(value)


@given(st.integers(SECONDS_BELOW, LAST_MS))
def test_milliseconds_are_taken(value: int) -> None:
    """Integer milliseconds are taken as they are."""
    assert parse_time(value) == value


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2026-11-21T02:10:20Z", "2026-11-21T02:10:20.000Z"),
        ("2026-11-21t02:10:20z", "2026-11-21T02:10:20.000Z"),
        ("2026-11-21 02:10:20.5+01:00", "2026-11-21T01:10:20.500Z"),
        ("2026-11-21T02:10:20.1250001-00:30", "2026-11-21T02:40:20.126Z"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000Z"),
        ("2026-12-31T23:59:60.250Z", "2027-01-01T00:00:00.250Z"),
    ],
)
def test_shapes_of_rfc_3339(text: str, same_as: str) -> None:
    """Offsets, short and long fractions, lower case and a leap second are read."""
    assert render_time(parse_time(text)) == same_as


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "2026-11-21",
        "2026-11-21T02:10:20",
        "2026-11-21T02:10Z",
        "2026-13-21T02:10:20Z",
        "2026-02-30T02:10:20.000Z",
        "2026-11-21T24:00:00.000Z",
        "2026-11-21T02:10:61.000Z",
        "2026-11-21T02:10:20.Z",
        "2026-11-21T02:10:20.12aZ",
        "2026-11-21T02:10:20+0100",
        "2026-11-21T02:10:20+24:00",
        "2026-11-21T02:10:20+01:60",
        "0000-01-01T00:00:00.000Z",
        "\uff12026-11-21T02:10:20.000Z",
        "2026-11-21T02:10:20.12³Z",
        LAST_MS + 1,
        10**30,
        1.8e12,
        True,
        None,
        [],
    ],
)
def test_anything_else_is_refused(value: object) -> None:
    """No offset, no such day, other types: refused, with the shape that is wanted."""
    with pytest.raises(BadTime, match="RFC 3339"):
        parse_time(value)
