"""Staged units: they left their window for a push, and are not handed over yet.

A push must wait until its receiver may get another attempt, and for a connection. So units are taken out of their
window before they can be sent. Staged units are claimed, and have no lease and no attempt yet. Like all units they are
checked against the settle records when they are handed over. They are forgotten when the term ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from node.handover.lease_book import HandOver
from node.ready.topic_window import LaneKind, Queued
from storage.format.array import U64
from storage.format.rows import UNIT, Units
from storage.tables.topic import Subscription


class StagedHandOver(NamedTuple):
    """The result for staged units that were to be handed over. Units in neither field are no longer staged: they ended,
    a command or a rule holds them, or they are back in their window."""

    hand_over: HandOver
    left: U64  # positions of units that stay staged, because trust is missing or the stop rule forbids a hand-over


@dataclass(slots=True)
class _Unit:
    subscription: Subscription
    kind: LaneKind
    tags: int
    due_ms: int
    row: bytes = b""  # of the index, once it was read


class Staged:
    """The staged units of one term, by position. There are few for each receiver, so each is an object of its own."""

    def __init__(self) -> None:
        self._units: dict[int, _Unit] = {}
        self._ended: dict[Subscription, set[int]] = {}  # staged units that have ended; no empty sets
        self._more_ended: set[Subscription] = set()  # subscriptions in which more units ended since `take_ended`

    def __len__(self) -> int:
        return len(self._units)

    def add(self, kind: LaneKind, subscription: Subscription, queued: Queued) -> None:
        """Add units that were taken out of a window of this lane and subscription."""
        columns = queued.position.tolist(), queued.tags.tolist(), queued.due_ms.tolist()
        for position, tags, due_ms in zip(*columns, strict=True):
            self._units[position] = _Unit(subscription, kind, tags, due_ms)

    def keep(self, positions: U64, rows: Units) -> None:
        """Keep the rows of the index of these staged units, so that they are not read again. Such a row never
        changes."""
        data, size = rows.tobytes(), rows.itemsize
        for at, position in enumerate(positions.tolist()):
            self._units[position].row = data[at * size : (at + 1) * size]

    def rows(self, positions: U64) -> Units | None:
        """Return the rows of the index of these staged units, shape [n]. None if any of them was not read."""
        return _joined([self._units[position] for position in positions.tolist()])

    def take(self, subscription: Subscription, positions: U64) -> Iterator[tuple[LaneKind, Queued, Units | None]]:
        """Remove these staged units, all of which belong to the subscription. Yield for each lane its units, in the
        order given, with their rows of the index, or None if any of these was not read."""
        lanes: dict[LaneKind, tuple[list[int], list[_Unit]]] = {}
        for position in positions.tolist():
            unit = self._pop(position)
            assert unit.subscription == subscription, (
                f"{position} is staged of {unit.subscription}, not of {subscription}"
            )
            at, units = lanes.setdefault(unit.kind, ([], []))
            at.append(position)
            units.append(unit)
        for kind, (at, units) in sorted(lanes.items()):
            tags, due_ms = np.array([each.tags for each in units], np.uint64), [each.due_ms for each in units]
            yield kind, Queued.of(np.array(at, np.uint64), tags, np.array(due_ms, np.int64)), _joined(units)

    def subscriptions(self, positions: U64) -> set[Subscription]:
        """The subscriptions of these staged units."""
        return {self._units[position].subscription for position in positions.tolist()}

    def forget(self, positions: U64) -> None:
        """Remove staged units that were handed over."""
        for position in positions.tolist():
            self._pop(position)

    def note_ended(self, positions: U64) -> None:
        """Note that the units at these positions ended or were moved. Positions of units that are not staged are
        ignored."""
        for position in positions.tolist() if self._units else ():
            unit = self._units.get(position)
            if unit is not None:
                self._ended.setdefault(unit.subscription, set()).add(position)
                self._more_ended.add(unit.subscription)

    @property
    def has_ended(self) -> bool:
        """True if staged units have ended or moved since `take_ended` was last called."""
        return bool(self._more_ended)

    def take_ended(self) -> dict[Subscription, int]:
        """Return how many units that are still staged have ended or moved, by subscription. Only subscriptions are
        named in which such units were noted since the last call."""
        subscriptions, self._more_ended = self._more_ended, set()
        return {each: len(self._ended[each]) for each in subscriptions if each in self._ended}

    def _pop(self, position: int) -> _Unit:
        unit = self._units.pop(position)
        if (ended := self._ended.get(unit.subscription)) is not None:
            ended.discard(position)
            if not ended:
                del self._ended[unit.subscription]
        return unit

    def clear(self) -> None:
        """Forget all units. The term is over."""
        self._units.clear()
        self._ended.clear()
        self._more_ended.clear()


def _joined(units: list[_Unit]) -> Units | None:
    """The rows of the index of these units. None unless all were read."""
    data = b"".join([unit.row for unit in units])
    return np.frombuffer(data, UNIT) if len(data) == len(units) * UNIT.itemsize else None
