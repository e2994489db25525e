"""Who is told what an entry did: the leader's dispatcher of units and topics, the node of members and level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from storage.format.array import I64, U8, U16, U32, U64
from storage.store import Store


class Fresh(NamedTuple):
    """The rows that became units, as stored."""

    position: U64
    due_ms: I64
    topic: U32
    tags: U64
    priority: U8


class Moves(NamedTuple):
    """Messages that were moved, in order."""

    home: U64
    old: U64
    fresh: Fresh  # the new units


@dataclass(frozen=True, slots=True)
class Changes:
    """An entry that was applied: its commands in their order, and what the proposer of each is answered. That is None
    where a command is void, for it says what the dispatcher of another term meant to do."""

    index: int
    term: int
    now_ms: int  # its stamp
    commands: tuple[Any, ...]
    results: tuple[Any, ...]


class Listener(Protocol):
    """The leader's dispatcher, told of what was applied, in order."""

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """New units, clamped as stored."""

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Hand-overs whose Lease took effect."""

    def on_released(self, position: U64) -> None:
        """Units whose lease was taken back: pending again."""

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Messages went from the places `old` to `position`. Before `on_settled` of the old places (those that were
        open there) and before `on_units`, which tells of the new ones as of all units."""

    def on_settled(self, position: U64) -> None:
        """Units that ended, by place: delivered, cancelled, dead or moved away."""

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """A topic was created or its settings changed; one that was dropped has none left."""


class Told:
    """What one machine tells. `listener` and `on_applied` are None while this node does not lead; the second is told of
    an entry when all of it is applied."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.listener: Listener | None = None
        self.on_applied: Callable[[Changes], None] | None = None
        self.on_founded: Callable[[bytes], None] | None = None
        self.on_members: Callable[[], None] | None = None
        self.on_level: Callable[[], None] | None = None

    def units(self, fresh: Fresh, index: int) -> None:
        """New units of the entry at `index`."""
        if self.listener is not None and len(fresh.position):
            self.listener.on_units(fresh.due_ms, fresh.position, fresh.topic, fresh.tags, fresh.priority, index)

    def leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Leases that took effect, or that end later."""
        if self.listener is not None:
            self.listener.on_leased(position, attempt, lease_end_ms)

    def released(self, position: U64) -> None:
        """Leases that were taken back."""
        if self.listener is not None and len(position):
            self.listener.on_released(position)

    def settled(self, place: U64) -> None:
        """Units that ended."""
        if self.listener is not None and len(place):
            self.listener.on_settled(place)

    def moved(self, moves: Sequence[Moves], index: int) -> None:
        """Messages that stand elsewhere since the entry at `index`."""
        if self.listener is None:
            return
        for each in moves:
            self.listener.on_moved(each.home, each.old, each.fresh.position)
            self.settled(each.old)
            self.units(each.fresh, index)

    def topics(self, numbers: Iterable[int]) -> None:
        """Topics that are new, or have other settings."""
        if self.listener is None:
            return
        for number in numbers:
            topic = self._store.catalog.topic_by_number(number)
            assert topic is not None
            self.listener.on_topic(number, topic.settings)

    def dropped(self, number: int) -> None:
        """A topic that is gone."""
        if self.listener is not None:
            self.listener.on_topic(number, {})

    def founded(self, cluster_id: bytes) -> None:
        """The cluster is there."""
        if self.on_founded is not None:
            self.on_founded(cluster_id)

    def members(self) -> None:
        """Who belongs to it changed."""
        if self.on_members is not None:
            self.on_members()

    def level(self) -> None:
        """Its level rose."""
        if self.on_level is not None:
            self.on_level()
