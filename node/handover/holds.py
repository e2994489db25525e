"""Units that may not be handed over for the moment, because a command in flight ends or moves them.

The leader does not hand such a unit over between the proposal of the command and its result. So no hand-over follows a
cancel that was answered 200. A held unit that is found in a window is taken out and stands aside, still claimed. When
it is released it goes to the front of its window.

A command names a message by its home or by its place, and releases it by the same name. Meanwhile another command, such
as a retry, may move the message. The hold then moves to the new position, because the first command will find the
message there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from node.ready.topic_window import LaneKind, Queued
from storage.format.array import U64
from storage.tables.topic import Subscription


class UnitHolds:
    """The held units of one term. There are few at a time, a few for each command in flight."""

    def __init__(self) -> None:
        self._holders: Counter[int] = Counter()  # name -> commands in flight; never 0
        self._places: dict[int, int] = {}  # name -> position of its unit; the same keys
        self._names: dict[int, set[int]] = {}  # position -> names of its unit; the inverse of _places, never empty
        #: Held units found in a window: the lane, the subscription, and the unit as it stood there.
        self._aside: dict[int, tuple[LaneKind, Subscription, Queued]] = {}

    def add(self, names: U64, places: U64) -> None:
        """Hold each of these units for one more command. `names` are the positions by which the command names them, and
        `places` are where they stand, shape [n] each."""
        for name, place in zip(names.tolist(), places.tolist(), strict=True):
            self._holders[name] += 1
            self._names.setdefault(self._places.setdefault(name, place), set()).add(name)

    def mask(self, places: U64) -> npt.NDArray[np.bool_]:
        """True, shape [n], where a unit is held."""
        if not self._names:
            return np.zeros(len(places), np.bool_)
        held = np.fromiter(self._names, np.uint64, len(self._names))
        return np.isin(places, held)

    def put_aside(self, kind: LaneKind, subscription: Subscription, units: Queued) -> None:
        """Keep these held units, which were found in a window and taken out of it, until no command holds them."""
        for row, place in enumerate(units.position.tolist()):
            self._aside[place] = kind, subscription, units.select(slice(row, row + 1)).copy()

    def drop(self, names: Iterable[int]) -> list[tuple[LaneKind, Subscription, Queued]]:
        """Take one command's holds off the units with these names. Return the units that stood aside and that no
        command holds any more, by lane and subscription, each group in the order of the names.

        A group goes back to its window at once. One unit at a time would cost the square of their number.
        """
        freed: dict[tuple[LaneKind, Subscription], list[Queued]] = {}
        for name in names:
            assert self._holders[name] > 0, f"position {name} is released and not held"
            self._holders[name] -= 1
            if self._holders[name]:
                continue
            del self._holders[name]
            place = self._places.pop(name)
            self._names[place].remove(name)
            if not self._names[place]:
                del self._names[place]
                if place in self._aside:
                    kind, subscription, unit = self._aside.pop(place)
                    freed.setdefault((kind, subscription), []).append(unit)
        return [(kind, subscription, Queued.joined(units)) for (kind, subscription), units in freed.items()]

    def move(self, homes: U64, olds: U64, places: U64) -> U64:
        """Move the holds of messages to `places`, where they stand now. They stood at `olds` before, or their units at
        `homes` had ended (a redrive). All have shape [n]. Return the old positions of those units that stood aside:
        they are dropped here."""
        left: list[int] = []
        rows = np.flatnonzero(self.mask(homes) | self.mask(olds))
        for home, old, place in zip(homes[rows].tolist(), olds[rows].tolist(), places[rows].tolist(), strict=True):
            for before in {home, old} & self._names.keys():
                names = self._names.pop(before)
                self._names.setdefault(place, set()).update(names)
                self._places.update(dict.fromkeys(names, place))
                if self._aside.pop(before, None) is not None:
                    left.append(before)
        return np.array(left, np.uint64)

    def forget_aside(self) -> None:
        """Forget the units that stand aside. The term is over, so a later release returns them nowhere."""
        self._aside.clear()
