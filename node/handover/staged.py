"""Units on their way from a window to a push: taken out of their topic's turn, not yet handed over.

A push waits for a free slot of its target and for its connection, so it takes units before it can send them. Staged
units are claimed and nothing more: no lease, no attempt. They are checked against the records when they are handed
over, like all others, and what was staged dies with the term.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from node.handover.lease_book import HandOver
from node.ready.topic_window import LaneKind, Queued
from storage.format.array import U64


class StagedHandOver(NamedTuple):
    """What became of staged units that were to be handed over. Those in neither are not staged any more: ended, put
    aside for a command in flight, or back in their window."""

    hand_over: HandOver
    left: U64  # may not go now: leadership is not trusted, or the stop rule; they stay staged


class Staged:
    """Staged units: topic, lane and tags of each position. A few per target, so they are kept one by one."""

    def __init__(self) -> None:
        self._units: dict[int, tuple[int, LaneKind, int]] = {}
        self._ended: dict[int, set[int]] = {}  # topic -> those of it that have ended meanwhile; no empty sets
        self._more_ended: set[int] = set()  # topics in which more have since this was asked

    def __len__(self) -> int:
        return len(self._units)

    def add(self, kind: LaneKind, topic: int, queued: Queued) -> None:
        """Units taken from a window."""
        for position, tags in zip(queued.position.tolist(), queued.tags.tolist(), strict=True):
            self._units[position] = topic, kind, tags

    def take(self, topic: int, positions: U64) -> Iterator[tuple[LaneKind, Queued]]:
        """Remove units of the topic, all of which are staged; by lane, in the order given."""
        lanes: dict[LaneKind, tuple[list[int], list[int]]] = {}
        for position in positions.tolist():
            its_topic, kind, tags = self._pop(position)
            assert its_topic == topic, f"position {position} of topic {its_topic} is staged, not of {topic}"
            column = lanes.setdefault(kind, ([], []))
            column[0].append(position)
            column[1].append(tags)
        for kind, (at, masks) in sorted(lanes.items()):
            yield kind, Queued.of(np.array(at, np.uint64), np.array(masks, np.uint64))

    def topics(self, positions: U64) -> set[int]:
        """Of these staged units."""
        return {self._units[position][0] for position in positions.tolist()}

    def forget(self, positions: U64) -> None:
        """These staged units were handed over."""
        for position in positions.tolist():
            self._pop(position)

    def note_ended(self, positions: U64) -> None:
        """Those of these that are staged ended, or stand elsewhere."""
        for position in positions.tolist() if self._units else ():
            unit = self._units.get(position)
            if unit is not None:
                self._ended.setdefault(unit[0], set()).add(position)
                self._more_ended.add(unit[0])

    @property
    def has_ended(self) -> bool:
        """Whether some have since this was asked last."""
        return bool(self._more_ended)

    def take_ended(self) -> dict[int, int]:
        """How many have, of the topics in which more have since this was asked last."""
        topics, self._more_ended = self._more_ended, set()
        return {topic: len(self._ended[topic]) for topic in topics if topic in self._ended}

    def _pop(self, position: int) -> tuple[int, LaneKind, int]:
        unit = self._units.pop(position)
        if (ended := self._ended.get(unit[0])) is not None:
            ended.discard(position)
            if not ended:
                del self._ended[unit[0]]
        return unit

    def clear(self) -> None:
        """The term is over."""
        self._units.clear()
        self._ended.clear()
        self._more_ended.clear()
