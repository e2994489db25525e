"""Decides how many old entries a node's journal keeps for other nodes, and bounds the disk space that these take.

```
  oldest kept                               last checkpoint            end
      |------ journal_keep_mb at the most ------|-- what a restart replays --|
      |   needed by a peer that lags or is down
```

A segment is removed once a durable checkpoint covers it and no node needs it. These nodes need it:

- A node that lags or is down, while the journal is within `journal_keep_mb`. A node that was restarted, or away for a
  while, then goes on from the journal. For a node that stays away, the journal keeps no more than that. When it comes
  back it gets a snapshot. A peer that keeps up needs only entries after the checkpoint, which are always kept.
- A node that takes over a snapshot, from the snapshot's index on until it has caught up. Otherwise entries that it
  needs next could be gone when it is done, and it would need another snapshot. The leader bounds that by
  `snapshot_journal_mb` (replication/snapshot/send.py).
"""

from __future__ import annotations

from collections.abc import Callable

from replication.journal.journal import SEGMENT_BYTES, Journal

MB = 1 << 20
_SEGMENTS_KEPT = 8


def segment_bytes(keep_mb: int) -> int:
    """Return the size in bytes at which the journal begins its next segment. It is a fraction of `keep_mb`, because
    only whole segments are removed."""
    return min(SEGMENT_BYTES, max(MB // 16, keep_mb * MB // _SEGMENTS_KEPT))


class Trimming:
    """Computes the oldest entry of the journal that other nodes may need. `low_water` returns the index up to which
    every peer is known to have the log. `hold` returns the oldest index that a node needs which takes over a snapshot,
    None if no node does."""

    def __init__(
        self, journal: Journal, keep_mb: int, *, low_water: Callable[[], int], hold: Callable[[], int | None]
    ) -> None:
        self._journal = journal
        self._keep_bytes = keep_mb * MB
        self._low_water = low_water
        self._hold = hold

    def needed_from(self) -> int:
        """Return the index of the oldest entry to keep for other nodes. Earlier entries may be removed once a
        checkpoint covers them."""
        needed = max(self._low_water(), self._journal.first_within(self._keep_bytes))
        hold = self._hold()
        return needed if hold is None else min(needed, hold)
