"""Which units a filtered pull wants: any of some groups of tags, all tags of a group.

Two steps, so that no record is read that cannot match. The index unit, and with it the ready window, keeps a mask of
the tags: each sets 3 of 64 bits (a Bloom filter; B. H. Bloom, 1970). A unit whose mask lacks a bit of every group's
mask does not match, and that is a vectorised question. Masks collide, so what passes is checked against the tags of the
record itself.
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
    """The bit-or of the tags' hashes that the index unit keeps."""
    mask = 0
    for tag in tags:
        mask |= _tag_mask(tag)
    return mask


@dataclass(frozen=True, slots=True)
class TagFilter:
    """Matches a message that has all tags of at least one of the groups. Equal filters want the same."""

    groups: frozenset[frozenset[str]]
    _masks: tuple[np.uint64, ...] = field(compare=False)

    @classmethod
    def of(cls, groups: Iterable[Iterable[str]]) -> TagFilter | None:
        """From `PullIn.tags`; None if there is no group: every message is wanted."""
        wanted = frozenset(frozenset(group) for group in groups)
        if not wanted:
            return None
        masks = {tags_mask(tag.encode() for tag in group) for group in wanted}
        return cls(wanted, tuple(np.uint64(mask) for mask in sorted(masks)))

    def may_match(self, masks: U64) -> Mask:
        """False, shape [n], where the masks of units say that they do not match."""
        matching: Mask = np.zeros(len(masks), np.bool_)
        for mask in self._masks:
            matching |= (masks & mask) == mask
        return matching

    def matches(self, tags: Iterable[str]) -> bool:
        """Whether a message with exactly these tags is wanted."""
        has = frozenset(tags)
        return any(group <= has for group in self.groups)
