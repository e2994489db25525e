"""What the machine told of each unit, kept in plain objects: the judge's side of the dispatcher's model.

The book listens to the machine that applies an entry first, and passes what it hears on to the leader's dispatcher. It
shares nothing with the store's columns, nor with the dispatcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from node.leader.dispatcher import Dispatcher
from replication.apply.machine import Applied
from replication.command.entry import Command
from replication.command.handover import Lease
from replication.command.topic import PutTopic
from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import I64, U8, U16, U32, U64
from storage.wheel.second_wheel import SecondWheel
from storage.wheel.slot import DueUnits


@dataclass(slots=True)
class Unit:
    """What the log says of a unit, and what consumers saw of its message."""

    due_ms: int
    topic: str
    index: int  # of the entry that brought it
    home: int
    tags: tuple[str, ...] = ()
    settled: bool = False  # here: it may live on elsewhere
    leased: bool = False  # the log has a lease of it, not taken back
    was_leased: bool = False  # it had one
    lease_end_ms: int = 0
    attempt: int = 0  # the highest that the log knows, where it was before included
    seen: tuple[int, int] = (0, 0)  # (term, attempt) of its newest hand-over
    strict_until_ms: int = 0  # end of the lease of the newest strict one that was made
    of_before: bool = False  # the lease is one of an earlier term
    before: tuple[bool, int, int] = (False, 0, 0)  # leased, lease_end_ms and attempt as they were before its last lease

    def outlive(self) -> None:
        """Another leader: a lease of the one before ends when it has ended by any clock."""
        if self.leased and not self.of_before:
            strict = self.strict_until_ms == self.lease_end_ms
            self.of_before, self.lease_end_ms = True, self.lease_end_ms + CLOCKS_MS
            if strict:
                self.strict_until_ms = self.lease_end_ms

    def open_at(self, now_ms: int) -> bool:
        """Whether it is ready by the records."""
        return not self.settled and self.due_ms <= now_ms and (not self.leased or self.lease_end_ms <= now_ms)


class RecordingWheel(SecondWheel):
    """Remembers what it gave out."""

    def __init__(self, preload_s: int = 10, *, start_ms: int) -> None:
        super().__init__(preload_s, start_ms=start_ms)
        self.given: set[int] = set()

    def take(self, now_ms: int) -> DueUnits:
        """As the wheel; a unit it gives twice is an error."""
        due = super().take(now_ms)
        positions = due.position.tolist()
        assert len(set(positions)) == len(positions)
        assert not len(due) or int(due.due_ms.max()) <= now_ms
        self.given |= set(positions)
        return due


@dataclass(slots=True)
class Book:
    """Listens for a dispatcher, if there is one (replication.apply.machine.Listener)."""

    units: dict[int, Unit] = field(default_factory=dict)  # by place
    places: dict[int, int] = field(default_factory=dict)  # home -> newest place
    topics: dict[int, str] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    tagged: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)  # of the Schedules in the entry, in order
    dispatcher: Dispatcher | None = None
    moves: int = 0
    _moving: dict[int, Unit] = field(default_factory=dict)  # new place -> the unit where the message was

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """New units, those of moved messages among them."""
        moved = all(place in self._moving for place in position.tolist())
        named = [()] * len(position) if moved or not self.tagged else self.tagged.pop(0)
        rows = zip(position.tolist(), due_ms.tolist(), topic.tolist(), named, strict=True)
        for place, due, number, its_tags in rows:
            before = self._moving.pop(place, None)
            unit = self.units[place] = Unit(due, self.topics.get(number, ""), applied_index, place, its_tags)
            if before is not None:
                unit.home, unit.tags, unit.attempt, unit.seen = before.home, before.tags, before.attempt, before.seen
            self.places[unit.home] = place
        if self.dispatcher is not None:
            self.dispatcher.on_units(due_ms, position, topic, tags, priority, applied_index)

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Leases that took effect."""
        for place, number, end_ms in zip(position.tolist(), attempt.tolist(), lease_end_ms.tolist(), strict=True):
            unit = self.units[place]
            unit.before = unit.leased, unit.lease_end_ms, unit.attempt
            unit.leased = unit.was_leased = True
            unit.of_before = False
            unit.lease_end_ms, unit.attempt = end_ms, max(number, unit.attempt)
        if self.dispatcher is not None:
            self.dispatcher.on_leased(position, attempt, lease_end_ms)

    def on_released(self, position: U64) -> None:
        """Leases taken back: pending, with the attempts made before."""
        for place in position.tolist():
            unit = self.units[place]
            assert unit.strict_until_ms != unit.lease_end_ms, f"{place} was handed over, and is released: {unit}"
            unit.leased, unit.attempt = False, unit.before[2]
        if self.dispatcher is not None:
            self.dispatcher.on_released(position)

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Messages that stand elsewhere now."""
        for its_home, before, place in zip(home.tolist(), old.tolist(), position.tolist(), strict=True):
            assert self.places[its_home] == before, f"{its_home} was at {self.places[its_home]}, not at {before}"
            self._moving[place] = self.units[before]
            self.units[before].settled = True
            self.moves += 1
        if self.dispatcher is not None:
            self.dispatcher.on_moved(home, old, position)

    def on_settled(self, position: U64) -> None:
        """Units that ended."""
        for place in position.tolist():
            self.units[place].settled = True
        if self.dispatcher is not None:
            self.dispatcher.on_settled(position)

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """A topic's settings."""
        if self.dispatcher is not None:
            self.dispatcher.on_topic(number, settings)

    def open_homes(self) -> list[int]:
        """Messages that have not ended."""
        return [home for home, place in self.places.items() if not self.units[place].settled]

    def record(self, commands: Sequence[Command], applied: Applied) -> list[int]:
        """What is told of an entry by its commands: pauses. Returns the positions whose Lease it held."""
        leased: list[int] = []
        for command in commands:
            if isinstance(command, PutTopic) and "paused" in command.settings:
                (self.paused.add if command.settings["paused"] else self.paused.discard)(command.name)
            elif isinstance(command, Lease):
                leased += command.position.tolist()
        assert applied.refused is None
        assert not self.tagged
        assert not self._moving
        return leased
