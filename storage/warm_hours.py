"""Hours that are not near and were used lately: they keep their states and descriptors, up to a bound."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from storage.hour import Hour

_WARM_HOURS_MAX: Final = 64
_WARM_UNITS_MAX: Final = 8 << 20
"""How many hours that are not near keep states and descriptors, and units of states in all."""


class WarmHours:
    """By number, the one used last at the end. On the loop's thread."""

    def __init__(self) -> None:
        self._hours: OrderedDict[int, Hour] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hours)

    def __iter__(self) -> Iterator[Hour]:
        return iter(self._hours.values())

    def use(self, hour: Hour) -> list[Hour]:
        """An hour is about to be used. Returns those that were cooled to keep within the bound."""
        known = hour.number in self._hours
        self._hours[hour.number] = hour
        self._hours.move_to_end(hour.number)
        return [] if known else self._cool()

    def drop(self, number: int) -> None:
        """Forget an hour as it is: it became near, or was unlinked."""
        self._hours.pop(number, None)

    def _cool(self) -> list[Hour]:
        cooled = []
        units = sum(hour.states_units for hour in self)
        while len(self) > 1 and (len(self) > _WARM_HOURS_MAX or units > _WARM_UNITS_MAX):
            _, coldest = self._hours.popitem(last=False)
            units -= coldest.states_units
            coldest.cool()
            cooled.append(coldest)
        return cooled
