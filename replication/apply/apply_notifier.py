"""Tells the parts of this node what an applied entry changed. The leader's dispatcher hears of units and topics. The
node hears of the founding, of members and of the level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from storage.format.array import I64, U8, U16, U32, U64
from storage.store import Store


class Fresh(NamedTuple):
    """New units as the store has them, one row each."""

    position: U64
    due_ms: I64
    topic: U32
    tags: U64
    priority: U8


class Moves(NamedTuple):
    """Messages that were moved, one row each: `home`, the place `old` that they left, and the unit at the new place."""

    home: U64
    old: U64
    fresh: Fresh  # the new units


@dataclass(frozen=True, slots=True)
class Changes:
    """An entry that was applied: its commands in their order, and for each command the answer that its proposer gets.

    The answer is None for a command that had no effect. It was decided in another term than the entry's own, or an
    answer is kept under its key.
    """

    index: int
    term: int
    now_ms: int  # the time that the leader gave the entry
    commands: tuple[Any, ...]
    results: tuple[Any, ...]


class Listener(Protocol):
    """Learns of the changes that entries make to units and topics, in the order of the log. The leader's dispatcher
    implements it.
    """

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """Take new units of the entry at `applied_index`. `due_ms` is as the store has it: not before the second
        `tick`, even if the client asked for an earlier time.
        """

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Take the units whose Lease or Extend took effect, with the ends of their leases."""

    def on_released(self, position: U64) -> None:
        """Take units whose lease was taken back by a Release. They are pending again."""

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Take the messages with these homes, which moved from the places `old` to the places `position`.

        After this call come `on_settled` for the places `old`, and `on_units` for the new units.
        """

    def on_settled(self, position: U64) -> None:
        """Take the places of units that ended: their messages were delivered, cancelled, died or moved away."""

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """Take a topic that was created or has new settings. A dropped topic has empty `settings`."""


class ApplyNotifier:
    """Tells parts of this node what the entries of one state machine changed.

    `listener` and `on_applied` are None while this node does not lead. `on_applied` is called after all commands of an
    entry were applied.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.listener: Listener | None = None
        self.on_applied: Callable[[Changes], None] | None = None
        self.on_founded: Callable[[bytes], None] | None = None
        self.on_members: Callable[[], None] | None = None
        self.on_level: Callable[[], None] | None = None

    def units(self, fresh: Fresh, index: int) -> None:
        """Report new units of the entry at `index`."""
        if self.listener is not None and len(fresh.position):
            self.listener.on_units(fresh.due_ms, fresh.position, fresh.topic, fresh.tags, fresh.priority, index)

    def leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Report hand-overs whose Lease took effect, and leases that were extended."""
        if self.listener is not None:
            self.listener.on_leased(position, attempt, lease_end_ms)

    def released(self, position: U64) -> None:
        """Report leases that were taken back."""
        if self.listener is not None and len(position):
            self.listener.on_released(position)

    def settled(self, place: U64) -> None:
        """Report the places of units that ended."""
        if self.listener is not None and len(place):
            self.listener.on_settled(place)

    def moved(self, moves: Sequence[Moves], index: int) -> None:
        """Report messages that the entry at `index` moved."""
        if self.listener is None:
            return
        for each in moves:
            self.listener.on_moved(each.home, each.old, each.fresh.position)
            self.settled(each.old)
            self.units(each.fresh, index)

    def topics(self, numbers: Iterable[int]) -> None:
        """Report topics that are new, or have other settings."""
        if self.listener is None:
            return
        for number in numbers:
            topic = self._store.catalog.topic_by_number(number)
            assert topic is not None
            self.listener.on_topic(number, topic.settings)

    def dropped(self, number: int) -> None:
        """Report a topic that was removed."""
        if self.listener is not None:
            self.listener.on_topic(number, {})

    def founded(self, cluster_id: bytes) -> None:
        """Report that the cluster is founded."""
        if self.on_founded is not None:
            self.on_founded(cluster_id)

    def members(self) -> None:
        """Report that the members changed."""
        if self.on_members is not None:
            self.on_members()

    def level(self) -> None:
        """Report that the cluster's level rose."""
        if self.on_level is not None:
            self.on_level()
