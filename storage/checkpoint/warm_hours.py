"""Hours that are not near and were used lately: they keep their states and descriptors, up to a bound.

An hour whose states files lack many settle records is dropped last. Until a checkpoint makes its files longer, the next
use reads its settle records on the loop, all of them if it has no file. A start that replays a journal makes no
checkpoint.
"""

from collections import OrderedDict
from typing import Final

from storage.hour.hour import Hour
from storage.state.files import TAIL_MIN

_WARM_HOURS_MAX: Final = 64
_WARM_UNITS_MAX: Final = 8 << 20
"""Bounds on the warm hours: their number, and the units of their states in all."""


class WarmHours:
    """The warm hours by number, the most recently used at the end. For the loop's thread."""

    def __init__(self) -> None:
        self._hours: OrderedDict[int, Hour] = OrderedDict()
        self._units: dict[int, int] = {}  # counted when another hour was used: only the hour in use gains states
        self._total = 0

    def __len__(self) -> int:
        return len(self._hours)

    def use(self, hour: Hour) -> None:
        """Note that an hour is used. If the warm hours are past a bound, drop hours, with their caches and descriptors,
        until they are not."""
        if self._hours:
            self._count(next(reversed(self._hours.values())))
        known = hour.number in self._hours
        self._hours[hour.number] = hour
        self._hours.move_to_end(hour.number)
        if not known:
            self._cool()

    def drop(self, number: int) -> None:
        """Forget an hour that became near or was unlinked. Its caches and descriptors stay as they are."""
        self._hours.pop(number, None)
        self._total -= self._units.pop(number, 0)

    def _count(self, hour: Hour) -> None:
        units = hour.states_units
        self._total += units - self._units.get(hour.number, 0)
        self._units[hour.number] = units

    def _cool(self) -> None:
        while len(self) > 1 and (len(self) > _WARM_HOURS_MAX or self._total > _WARM_UNITS_MAX):
            *others, _ = self._hours.values()
            coldest = next(filter(_is_filed, others), others[0])
            self.drop(coldest.number)
            coldest.cool()


def _is_filed(hour: Hour) -> bool:
    """True if states files cover nearly all settle records of an hour, or its states are not in memory."""
    states = hour.states_held
    return states is None or hour.settles - states.filed < TAIL_MIN
