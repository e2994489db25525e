"""The tags that a filtered pull wants, in groups. A message matches if it has all tags of at least one group.

The match takes two steps, so that no record is read that cannot match. The index unit, and with it the ready window,
keeps a mask of the tags. Each tag sets 3 of 64 bits (a Bloom filter; B. H. Bloom, 1970). A unit matches a group only if
its mask has all bits of the group's mask. One numpy step asks that for all units. Different tags may set the same bits,
so the remaining units are checked against the tags of the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from storage.format.array import U64

Mask = npt.NDArray[np.bool_]

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
    """Matches a message that has all tags of at least one of the groups. Equal filters match the same messages."""

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
