"""Messages with tags whose masks collide by first letter."""

from collections.abc import Iterable

import numpy as np

from storage.format.batches import UnitBatch
from storage.format.position import HOUR_MS
from storage.record.record import KIND_MESSAGE, Drafts, encode_records
from tests.storage.workload import HOUR, batch_of

DUE = HOUR * HOUR_MS


class Tagged:
    """Wants one tag; masks are those of `tagged_batch`."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.asked = 0

    def may_match(
        self, masks: "np.ndarray[tuple[int], np.dtype[np.uint64]]"
    ) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """By first letter: tags that begin alike collide."""
        matching: np.ndarray[tuple[int], np.dtype[np.bool_]] = (masks & np.uint64(1 << (ord(self.tag[0]) & 63))) > 0
        return matching

    def matches(self, tags: Iterable[str]) -> bool:
        """By the whole tag."""
        self.asked += 1
        return self.tag in tags


def tagged_batch(tags: list[str]) -> UnitBatch:
    """A message with each of these tags, due a millisecond apart."""
    batch = batch_of([DUE + row for row in range(len(tags))])
    drafts = Drafts(
        [b"x" * 50] * len(tags), batch.due_ms, batch.due_ms.astype(np.uint64), tags=[(tag.encode(),) for tag in tags]
    )
    records = encode_records(drafts)
    return UnitBatch(
        due_ms=batch.due_ms,
        size=records.size,
        topic=batch.topic,
        tags=np.array([1 << (ord(tag[0]) & 63) for tag in tags], np.uint64),
        kind=np.full(len(tags), KIND_MESSAGE, np.uint8),
        priority=batch.priority,
        attempt=batch.attempt,
        flags=batch.flags,
        records=records.blob,
        created_ms=DUE,
    )
