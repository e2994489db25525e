"""Hours with settle records that wait in memory for a checkpoint. The `Hour` object of each is kept, because it has
them."""

from typing import Final

from storage.hour.hour import Hour
from storage.hour.hour_table import HourCounters
from storage.hour.staging import Chunks

_SETTLING_BYTES: Final = 2048
"""Memory of an hour that is kept for its staged settle records."""


class SettlingHours:
    """The hours with settle records that wait in memory, by number, and the memory of these records, which HourSet
    bounds. For the loop's thread."""

    def __init__(self) -> None:
        self._hours: dict[int, Hour] = {}
        self.bytes = 0
        """Memory of these hours."""

    def __len__(self) -> int:
        return len(self._hours)

    def add(self, hour: Hour, staged: int) -> None:
        """Note that an hour got settle records of `staged` bytes that wait in its memory."""
        if hour.number not in self._hours:
            self._hours[hour.number] = hour
            self.bytes += _SETTLING_BYTES
        self.bytes += staged

    def lowest(self, count: int) -> list[Hour]:
        """The `count` hours with the lowest numbers, or all if there are fewer."""
        return [self._hours[number] for number in sorted(self._hours)[:count]]

    def saved(self, hour: Hour, counters: HourCounters) -> None:
        """Drop those settle records of an hour that the counters say are written. Forget the hour if no record is left
        in memory."""
        before = hour.staged_settles.bytes()
        hour.thaw(counters)
        self.bytes += (after := hour.staged_settles.bytes()) - before
        if before and not after:
            del self._hours[hour.number]
            self.bytes -= _SETTLING_BYTES

    def freeze(self) -> dict[int, Chunks]:
        """The staged settle records by hour, as they are now."""
        return {number: hour.staged_settles.copy() for number, hour in self._hours.items()}
