"""The predicate by which messages are chosen: topics, a window of due times, and tags. Lists, counts, operations and
the check before a hand-over all ask it.

It works on columns of the index. The match of tags takes two steps, so that no record is read that cannot match. The
index unit, and with it the ready window, keeps a mask of the tags. Each tag sets 3 of 64 bits (a Bloom filter; B. H.
Bloom, 1970). A unit matches a group of tags only if its mask has all bits of the group's mask. One numpy step asks that
for all units. Different tags may set the same bits, so the remaining units are checked against the tags of the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Protocol

import numpy as np

from storage.format.array import I64, U32, U64, Mask
from storage.format.position import HOUR_MS

_BITS = 3


@lru_cache(maxsize=4096)
def _tag_mask(tag: bytes) -> int:
    mask = 0
    for byte in blake2b(tag, digest_size=_BITS).digest():
        mask |= 1 << (byte & 63)
    return mask


def tags_mask(tags: Iterable[bytes]) -> int:
    """The bit-or of the tags' hashes, which the index unit keeps."""
    mask = 0
    for tag in tags:
        mask |= _tag_mask(tag)
    return mask


@dataclass(frozen=True, slots=True)
class TagFilter:
    """Matches a message that has all tags of at least one of the groups, such as those that a filtered pull wants.
    Equal filters match the same messages."""

    groups: frozenset[frozenset[str]]
    _masks: tuple[np.uint64, ...] = field(compare=False)

    @classmethod
    def of(cls, groups: Iterable[Iterable[str]]) -> TagFilter | None:
        """The filter of `PullIn.tags`. None if there is no group, because then every message matches."""
        wanted = frozenset(frozenset(group) for group in groups)
        if not wanted:
            return None
        masks = {tags_mask(tag.encode() for tag in group) for group in wanted}
        return cls(wanted, tuple(np.uint64(mask) for mask in sorted(masks)))

    def may_match(self, masks: U64) -> Mask:
        """Return a boolean array [n]: False where a unit's mask of tags shows that it does not match."""
        matching: Mask = np.zeros(len(masks), np.bool_)
        for mask in self._masks:
            matching |= (masks & mask) == mask
        return matching

    def matches(self, tags: Iterable[str]) -> bool:
        """True if a message with exactly these tags matches."""
        has = frozenset(tags)
        return any(group <= has for group in self.groups)


class TagTest(Protocol):
    """A test for the wanted tags. TagFilter is one."""

    def may_match(self, masks: U64) -> Mask:
        """Return a boolean array: False where a unit's mask of tags shows that its tags are not wanted."""

    def matches(self, tags: Iterable[str]) -> bool:
        """True if a message with exactly these tags is wanted."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """Messages of these topics (their numbers), due in [from_ms, to_ms), with wanted tags. A field that is None
    restricts nothing."""

    topics: frozenset[int] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tags: TagTest | None = None

    @classmethod
    def of(cls, topics: Iterable[int] | None, from_ms: int | None, to_ms: int | None, tag: str | None) -> Predicate:
        """The predicate of one wanted tag, None for any."""
        tags = None if tag is None else TagFilter.of([[tag]])
        return cls(None if topics is None else frozenset(topics), from_ms, to_ms, tags)

    @property
    def takes_all(self) -> bool:
        """True if nothing but the window restricts it."""
        return self.topics is None and self.tags is None

    def touches(self, hour: int) -> bool:
        """True if the hour and [from_ms, to_ms) have some time in common."""
        return (self.from_ms is None or self.from_ms < (hour + 1) * HOUR_MS) and (
            self.to_ms is None or self.to_ms > hour * HOUR_MS
        )

    def covers(self, hour: int) -> bool:
        """True if the whole hour is in [from_ms, to_ms)."""
        return (self.from_ms is None or self.from_ms <= hour * HOUR_MS) and (
            self.to_ms is None or self.to_ms >= (hour + 1) * HOUR_MS
        )

    def has_due(self, due_ms: int) -> bool:
        """True if a due time is in [from_ms, to_ms)."""
        return (self.from_ms is None or self.from_ms <= due_ms) and (self.to_ms is None or due_ms < self.to_ms)

    def of_topics(self, topic: U32) -> Mask:
        """True, shape [n], for units of its topics."""
        if self.topics is None:
            return np.ones(len(topic), np.bool_)
        if len(self.topics) == 1:
            (only,) = self.topics
            one: Mask = topic == np.uint32(only)
            return one
        return np.isin(topic, np.fromiter(self.topics, np.uint32, len(self.topics)))

    def may_match(self, due_ms: I64, topic: U32, tags: U64) -> Mask:
        """False, shape [n], for units that do not match. The columns are those of the index. Units that only may carry
        a wanted tag are True."""
        keep = self.of_topics(topic)
        if self.from_ms is not None:
            keep &= due_ms >= self.from_ms
        if self.to_ms is not None:
            keep &= due_ms < self.to_ms
        if self.tags is not None:
            keep &= self.tags.may_match(tags)
        return keep


ALL: Final = Predicate()
"""The predicate of all messages."""
