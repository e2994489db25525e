"""Hours that have settle records in memory, which wait for a checkpoint: each is kept as an object for these."""

from typing import Final

from storage.hour.hour import Hour
from storage.hour.hour_table import HourCounters
from storage.hour.staging import Chunks

_SETTLING_BYTES: Final = 2048
"""What an hour costs that is kept for its staged settle records."""


class SettlingHours:
    """By number. On the loop's thread."""

    def __init__(self) -> None:
        self._hours: dict[int, Hour] = {}
        self.bytes = 0
        """Memory they take."""

    def __len__(self) -> int:
        return len(self._hours)

    def add(self, hour: Hour, staged: int) -> None:
        """So many bytes of settle records were staged in an hour."""
        if hour.number not in self._hours:
            self._hours[hour.number] = hour
            self.bytes += _SETTLING_BYTES
        self.bytes += staged

    def lowest(self, count: int) -> list[Hour]:
        """The lowest of them, so many at most."""
        return [self._hours[number] for number in sorted(self._hours)[:count]]

    def saved(self, hour: Hour, counters: HourCounters) -> None:
        """An hour is written as far as these say; one without staged settle records is kept no longer."""
        before = hour.staged_settles.bytes()
        hour.thaw(counters)
        self.bytes += (after := hour.staged_settles.bytes()) - before
        if before and not after:
            del self._hours[hour.number]
            self.bytes -= _SETTLING_BYTES

    def freeze(self) -> dict[int, Chunks]:
        """The staged settle records by hour, as they are now."""
        return {number: hour.staged_settles.copy() for number, hour in self._hours.items()}
