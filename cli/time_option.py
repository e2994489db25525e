"""Spans and points of time as people type them: `1h30m`, `500ms`, `now`, `-1h`, `2026-11-21T02:10:20.125Z`.

All commands read them here, so that bad input is answered in one way: with the option's name and what is allowed. Only
the node checks if a span is too long for a field.
"""

import re
import time
from typing import Final

import click

_UNIT_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION: Final = re.compile(
    r"(?:([0-9]{1,15})d)?(?:([0-9]{1,15})h)?(?:([0-9]{1,15})m)?(?:([0-9]{1,15})s)?(?:([0-9]{1,15})ms)?"
)
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_FRACTION: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_ABSOLUTE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,32})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)

#: A year: no command waits longer, and sockets take no timeout of centuries.
SPAN_MAX_S: Final = 365 * 86_400.0
#: The years 1970 to 9999.
_TIME_MAX_MS: Final = 253_402_300_799_999

DURATION: Final = "500ms 90s 1h30m 2d"
#: What digits alone mean where a command reads them as milliseconds, and as seconds.
MS_ALONE: Final = "digits alone: ms"
S_ALONE: Final = "digits alone: s"
TIME: Final = "now, -1h, +10m, 2026-11-21T02:10:20Z or ms since 1970"


class BadTime(ValueError):
    """The text is no span or no point of time; the message says what to write instead."""


def parse_duration(text: str) -> int:
    """Milliseconds of units in falling order, each once: `1h30m`. Raises BadTime."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        hint = "write whole numbers with units d, h, m, s, ms, the largest first"
        raise BadTime(f'"{text[:40]}" is no duration; {hint}, such as {DURATION.replace(" ", ", ")}')
    return sum(int(count or 0) * unit_ms for count, unit_ms in zip(found.groups(), _UNIT_MS.values(), strict=True))


def parse_time(text: str, now_ms: int) -> int | str:
    """Milliseconds since 1970 of `now`, `-1h`, `+10m` or digits; an absolute time as it was typed. Raises BadTime.

    An absolute time is left to the node, which also reads digits finer than a millisecond.
    """
    if text == "now":
        return now_ms
    if text[:1] in ("-", "+"):
        try:
            time_ms = now_ms + (-1 if text[0] == "-" else 1) * parse_duration(text[1:])
        except BadTime:
            pass
        else:
            if not 0 <= time_ms <= _TIME_MAX_MS:
                raise BadTime(f'"{text[:40]}" lies outside of the years 1970 to 9999')
            return time_ms
    if _NUMBER.fullmatch(text):
        return int(text)
    if _ABSOLUTE.fullmatch(text):
        return text
    raise BadTime(f'"{text[:40]}" is no time; write {TIME} (a date has an offset: Z, +02:00)')


class Duration(click.ParamType[int]):
    """A span of time in milliseconds. Digits alone are milliseconds, as the node reads them."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            return int(text) if _NUMBER.fullmatch(text) else parse_duration(text)
        except BadTime as bad:
            self.fail(f"{bad}; or whole milliseconds", param, ctx)


class ShiftDuration(Duration):
    """The same, with a minus for a span back in time."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds, negative for a span back."""
        if isinstance(value, int):
            return value
        text = str(value)
        size: int = super().convert(text[1:] if text[:1] in ("-", "+") else text, param, ctx)
        return -size if text[:1] == "-" else size


class Span(click.ParamType[float]):
    """A span of time in seconds, within bounds. Digits alone are seconds, and may have a fraction."""

    name = "DURATION"

    def __init__(self, least_s: float = 0.0, most_s: float = SPAN_MAX_S) -> None:
        self._least_s, self._most_s = least_s, most_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        text = str(value)
        try:
            seconds = float(text) if _FRACTION.fullmatch(text) else parse_duration(text) / 1000
        except BadTime as bad:
            self.fail(f"{bad}; or seconds", param, ctx)
        if seconds < self._least_s:
            self.fail(f"at least {self._least_s:g}s is needed, got {text}", param, ctx)
        if seconds > self._most_s:
            self.fail(f"at most {self._most_s:.0f}s is allowed, got {text}", param, ctx)
        return seconds


class Time(click.ParamType[int | str]):
    """A point of time: milliseconds since 1970, or an absolute time as it was typed."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """See `parse_time`; relative times count from now."""
        if isinstance(value, int):
            return value
        try:
            return parse_time(str(value), time.time_ns() // 1_000_000)
        except BadTime as bad:
            self.fail(str(bad), param, ctx)
