"""Points in time on the wire: RFC 3339 with an offset or integer milliseconds in, RFC 3339 UTC with milliseconds out.

A message may not be delivered before its due time. So digits finer than a millisecond round up, so no message is due
before the asked time. An integer below 10**11 is refused. As milliseconds it lies before March 1973, so it must be
seconds. If it were accepted, a message for a later day would be delivered at once.

Every answer renders times. So the text of a second is cached, and the column form (`render_times`) works on whole
arrays.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

#: Integers below this are seconds, not milliseconds.
SECONDS_BELOW: Final = 10**11
#: Milliseconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z, the first and the last time that can be written.
FIRST_MS: Final = -62_135_596_800_000
LAST_MS: Final = 253_402_300_799_999

_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,32}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_HINT: Final = 'write RFC 3339 with an offset, such as "2026-11-21T02:10:20.125Z", or integer milliseconds since 1970'
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadTime(ValueError):
    """The value is no point in time. The text says what to write instead."""


def parse_time(value: object) -> int:
    """Return the milliseconds since the epoch, rounded up. They may lie in the past, even before 1970. Raises
    `BadTime`."""
    if type(value) is str:
        # Our own format, with the second cached: a batch has many times and few seconds.
        if len(value) == 24 and value[23] == "Z" and value[19] == "." and value.isascii():
            second = _plain_second(value[:19])
            if second is not None and value[20:23].isdigit():
                return second * 1000 + int(value[20:23])
        return _parse_text(value)
    if type(value) is int:
        if value < SECONDS_BELOW:
            raise BadTime(f"{value} looks like seconds (below 10^11); {_HINT}")
        if value > LAST_MS:
            raise BadTime(f"the integer is past the year 9999; are these microseconds? {_HINT}")
        return value
    raise BadTime(f"expected a string or integer milliseconds; {_HINT}")


@lru_cache(maxsize=4096)
def _plain_second(text: str) -> int | None:
    """Return the epoch second of `YYYY-MM-DDTHH:MM:SS` (UTC). None if the text is not exactly that."""
    match = _RFC3339.fullmatch(text + "Z")
    if match is None or match[4] == "60":
        return None
    try:
        return _parse_text(text + "Z") // 1000
    except BadTime:
        return None


def _parse_text(text: str) -> int:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise BadTime(f'"{text[:40]}" is no time with an offset; {_HINT}')
    date, hour, minute, second, fraction, offset = match.groups()
    try:
        # A leap second (:60) is the start of the next minute. It rounds up, like every deadline.
        leap = 1 if second == "60" else 0
        moment = datetime.fromisoformat(f"{date}T{hour}:{minute}:{59 if leap else second}+00:00")
    except ValueError as error:
        raise BadTime(f'"{text[:40]}" is no time: {error}; {_HINT}') from None
    seconds = (moment - _EPOCH) // timedelta(seconds=1) + leap - _offset_seconds(text, offset)
    value_ms = seconds * 1000
    if fraction is not None:
        value_ms += -(-int(fraction) * 1000 // int(10 ** len(fraction)))
    if not FIRST_MS <= value_ms <= LAST_MS:
        raise BadTime(f'"{text[:40]}" is before the year 1 or past the year 9999 in UTC')
    return value_ms


def _offset_seconds(text: str, offset: str) -> int:
    if offset in ("Z", "z"):
        return 0
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise BadTime(f'"{text[:40]}" has an offset out of range; {_HINT}')
    return (-1 if offset[0] == "-" else 1) * (hours * 3600 + minutes * 60)


_MILLI_TEXT: Final = tuple(f".{milli:03d}Z" for milli in range(1000))


@lru_cache(maxsize=4096)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


def render_time(value_ms: int) -> str:
    """Return a time as `2026-11-21T02:10:20.125Z`, always 24 characters. Years 0001 to 9999, otherwise
    OverflowError."""
    second, milli = divmod(value_ms, 1000)
    return _second_text(second) + _MILLI_TEXT[milli]


def _digits(width: int, dtype: str) -> npt.NDArray[np.unsignedinteger]:
    """Return all numbers of `width` digits as ASCII, each packed into one unsigned integer of `width` bytes."""
    numbers = np.arange(10**width)
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8).view(dtype)[:, 0]


#: A time as text, its digits as packed integers. A column is written with one gather for each part, not one for each
#: digit. The milliseconds include their "Z", because four bytes are an integer and three are not.
TIME_TEXT: Final = np.dtype(
    [("year", "<u4"), ("a", "S1"), ("month", "<u2"), ("b", "S1"), ("day", "<u2"), ("c", "S1")]
    + [("hour", "<u2"), ("d", "S1"), ("minute", "<u2"), ("e", "S1"), ("second", "<u2"), ("f", "S1"), ("milli_z", "<u4")]
)
_TWO: Final = _digits(2, "<u2")
_FOUR: Final = _digits(4, "<u4")
_MILLI_Z: Final = np.frombuffer(b"".join(b"%03dZ" % milli for milli in range(1000)), "<u4")


def write_times(texts: npt.NDArray[np.void], values_ms: npt.NDArray[np.int64]) -> None:
    """Write n times into an array (or a field of one) of dtype `TIME_TEXT` that holds the separators already.

    The range is that of `render_time`. Beyond it IndexError.
    """
    whole_days = values_ms // 86_400_000
    in_day = (values_ms - whole_days * 86_400_000).astype(np.uint32)  # 32 bits divide twice as fast, and suffice
    # Civil date from the day number (Hinnant). Years begin in March, so the leap day comes last.
    shifted = whole_days.astype(np.int32) + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    month = month_from_march + np.where(month_from_march < 10, 3, -9)
    texts["year"] = _FOUR[year_of_era + 400 * era + (month <= 2)]
    texts["month"] = _TWO[month]
    texts["day"] = _TWO[of_year - (153 * month_from_march + 2) // 5 + 1]
    second = in_day // 1000
    minute = second // 60
    hour = minute // 60
    texts["hour"] = _TWO[hour]
    texts["minute"] = _TWO[minute - hour * 60]
    texts["second"] = _TWO[second - minute * 60]
    texts["milli_z"] = _MILLI_Z[in_day - second * 1000]


#: A time with every separator in place. Arrays are filled with it before `write_times`.
TIME_BLANK: Final = b"0000-00-00T00:00:00.000Z"
