"""Durations on the wire: `"250ms" "10s" "3m" "2h" "7d"` or whole milliseconds in, the shortest exact text out.

A duration is one number and one unit, without fractions or sums. So each duration has one spelling per unit, and a typo
such as "1,5h" or "30 min" is refused instead of guessed at. The number of digits is bounded before it becomes an int.
"""

import re
from typing import Final

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)", re.ASCII)
_HINT: Final = 'write a whole number with one unit, such as "250ms", "10s", "3m", "2h" or "7d", or whole milliseconds'


class BadDuration(ValueError):
    """The value is no duration. The text says what to write instead."""


def parse_duration(value: object) -> int:
    """Return the milliseconds (>= 0) of a duration as sent. Raises `BadDuration` for anything else."""
    if type(value) is str:
        match = _TEXT.fullmatch(value)
        if match is None:
            raise BadDuration(f'"{value[:40]}" is no duration; {_HINT}')
        return int(match[1]) * _UNIT_MS[match[2]]
    if type(value) is int:
        if value < 0:
            raise BadDuration(f"a duration is not negative; {_HINT}")
        return value
    raise BadDuration(f"expected a string or whole milliseconds; {_HINT}")


def render_duration(value_ms: int) -> str:
    """Return the duration in the largest unit that holds it exactly: 30000 -> "30s", 90000 -> "90s", 0 -> "0s"."""
    if value_ms == 0:
        return "0s"
    for unit in ("d", "h", "m", "s"):
        if value_ms % _UNIT_MS[unit] == 0:
            return f"{value_ms // _UNIT_MS[unit]}{unit}"
    return f"{value_ms}ms"
