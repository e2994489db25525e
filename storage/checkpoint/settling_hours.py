"""Hours with settle records in memory that wait for a checkpoint. Each such hour is kept as an object."""

from typing import Final

from storage.hour.hour import Hour
from storage.hour.hour_table import HourCounters
from storage.hour.staging import Chunks

_SETTLING_BYTES: Final = 2048
"""Memory of an hour that is kept for its staged settle records."""


class SettlingHours:
    """The hours by number. On the loop's thread."""

    def __init__(self) -> None:
        self._hours: dict[int, Hour] = {}
        self.bytes = 0
        """Memory of these hours."""

    def __len__(self) -> int:
        return len(self._hours)

    def add(self, hour: Hour, staged: int) -> None:
        """Count `staged` bytes of settle records that were staged in an hour."""
        if hour.number not in self._hours:
            self._hours[hour.number] = hour
            self.bytes += _SETTLING_BYTES
        self.bytes += staged

    def lowest(self, count: int) -> list[Hour]:
        """At most `count` of the lowest hours."""
        return [self._hours[number] for number in sorted(self._hours)[:count]]

    def saved(self, hour: Hour, counters: HourCounters) -> None:
        """Drop an hour's settle records as far as the counters say that they are written. Drop the hour if none is
        left."""
        before = hour.staged_settles.bytes()
        hour.thaw(counters)
        self.bytes += (after := hour.staged_settles.bytes()) - before
        if before and not after:
            del self._hours[hour.number]
            self.bytes -= _SETTLING_BYTES

    def freeze(self) -> dict[int, Chunks]:
        """The staged settle records by hour, as they are now."""
        return {number: hour.staged_settles.copy() for number, hour in self._hours.items()}
