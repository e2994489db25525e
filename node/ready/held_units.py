"""Parked units: a rule holds them. They are out of their windows and still claimed, until no rule holds them.

They are kept by lane and subscription, in the order of their window, and count for their subscription's share of
memory. Units of the subscription beyond that share are not in memory: they are its backlog. Rules are asked again about
a piece at a time, from the last unit to the first. A unit that may go returns to the front of its window, so the order
of the window is kept.

    unasked  [a b c d | e f]  -- the last piece, held --> first of  asked  [g h]
                                 '- free ---------------> first of its window
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from node.ready.topic_window import LaneKind, Queued, Window
from storage.tables.topic import Subscription


class Piece(NamedTuple):
    """Units of one lane and subscription, in their order."""

    kind: LaneKind
    subscription: Subscription
    units: Queued


@dataclass(slots=True)
class Line:
    """The parked units of a subscription in one lane. The units that the rules have not been asked about in this round
    (`unasked`) come before the others (`asked`)."""

    unasked: Window = field(default_factory=Window)
    asked: Window = field(default_factory=Window)

    @property
    def count(self) -> int:
        """The number of parked units in both parts."""
        return self.unasked.count + self.asked.count


class HeldUnits:
    """All parked units of a leader, in `lines` by lane and subscription. A line without units has no entry. `count` is
    the number of all parked units."""

    def __init__(self) -> None:
        self.lines: dict[tuple[LaneKind, Subscription], Line] = {}
        self._left: dict[tuple[LaneKind, Subscription], None] = {}  # lines with units to be asked about
        self.count = 0

    @property
    def asking(self) -> bool:
        """True if the rules are still to be asked about some units of this round."""
        return bool(self._left)

    def of(self, kind: LaneKind, subscription: Subscription) -> int:
        """How many units of the subscription's lane are parked."""
        line = self.lines.get((kind, subscription)) if self.lines else None
        return 0 if line is None else line.count

    def park(self, piece: Piece) -> None:
        """Add units that a rule has just been found to hold, behind all parked units of their lane and subscription."""
        self._line(piece).asked.push(piece.units)
        self.count += len(piece.units)

    def keep(self, piece: Piece) -> None:
        """Park again units that `take` returned, because a rule still holds them. They come before the units asked
        about earlier in this round."""
        self._line(piece).asked.put_back(piece.units)
        self.count += len(piece.units)

    def ask_all(self) -> None:
        """Begin a round: the rules are to be asked about all parked units."""
        for key, line in self.lines.items():
            line.unasked.push(line.asked.take(line.asked.count))
            self._left[key] = None

    def take(self, most: int) -> Piece | None:
        """Remove the units that the rules are to be asked about next, and return them: the last of one line's
        `unasked`, at most `most`. None if no unit is left in this round."""
        for key in self._left:
            line = self.lines[key]
            units = line.unasked.shed(max(0, line.unasked.count - most))
            self._took(key, units)
            return Piece(*key, units)
        return None

    def shed(self, kind: LaneKind, subscription: Subscription, keep: int) -> Queued:
        """Remove and return all units of a line but the first `keep`."""
        line = self.lines[kind, subscription]
        parts = [line.asked.shed(max(0, min(line.asked.count, keep - line.unasked.count)))]
        parts.insert(0, line.unasked.shed(min(line.unasked.count, keep)))
        units = Queued.joined([part for part in parts if len(part)])
        self._took((kind, subscription), units)
        return units

    def sizes(self) -> list[tuple[int, LaneKind, Subscription]]:
        """The number of units of each line, with its lane and subscription."""
        return [(line.count, *key) for key, line in self.lines.items()]

    def _line(self, piece: Piece) -> Line:
        return self.lines.setdefault((piece.kind, piece.subscription), Line())

    def _took(self, key: tuple[LaneKind, Subscription], units: Queued) -> None:
        line = self.lines[key]
        self.count -= len(units)
        if not line.unasked.count:
            self._left.pop(key, None)
        if not line.count:
            del self.lines[key]
