"""Makes a journal that begins at a snapshot: one segment without commands, which only says where the log goes on.

A node that takes over a snapshot has everything up to `index` in its hours and catalog, and none of the entries that
made it. Raft still needs the last of them, because the log matching check compares its (index, term). So the journal
begins with a placeholder at (index, term), a no-op. It stands for that entry and is never used as an entry:

- It is not applied: the store has everything up to it already (`RaftGroup.start_at`).
- It is not sent to any node. To send entry n a leader names the term of n - 1, and before the first entry it knows
  none. A follower that needs the placeholder itself is stranded and gets a snapshot.

The new journal keeps this node's promises: term, vote and voter flag of the journal that it replaces. The file is made
under the name `.new` and renamed when it is durable, like every segment. One rename puts its directory, with the rest
of the snapshot, in the place of the old journal. Until then the old journal counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replication.journal.journal import Journal
from replication.journal.record import ENTRY, META, NO_OP, VOTED, VOTER
from replication.journal.segment import Segment
from replication.journal.sync import create_segment, preamble
from replication.wire.frame_bound import TERM_MAX
from storage.checkpoint.manifest import Manifest, SnapshotRefused
from storage.file.disk import Disk
from storage.format.rows import MAGIC_JOURNAL, FileHeader

RESTORED_TERMS: Final = 1_000_000
"""A restored cluster's first term is this far above the backup's. The old cluster cannot have had so many elections
since."""


@dataclass(frozen=True, slots=True)
class Promises:
    """The promises of a node in elections, which it must not forget: its term, its vote, and if it may vote."""

    term: int
    vote: str | None
    voter: bool

    @classmethod
    def of(cls, journal: Journal) -> Promises:
        """The promises that a journal has now. The node must make no new promise until the new journal is in use."""
        return cls(journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.voter)


def install_journal(
    directory: Path,
    disk: Disk,
    *,
    index: int,
    term: int,
    cluster_id: bytes,
    promises: Promises,
    group: int = 0,
    version: int = 1,
) -> None:
    """Make the journal of a snapshot in `directory`. The snapshot has the log up to `index`, whose entry is of `term`.
    Durable when this returns.

    `version` is the snapshot's level. `directory` exists and is not in use as a journal; files of an earlier try are
    removed. Blocks the calling thread. Raises DiskFailed.
    """
    assert index >= 1, f"a snapshot at index {index}"
    assert promises.term >= term, f"term {promises.term} before that of the snapshot, {term}"
    for name in disk.list_directory(directory):
        disk.unlink(directory / name)
    segment = Segment(directory, 1, version)
    flags = (VOTER if promises.voter else 0) | (VOTED if promises.vote is not None else 0)
    meta = (index, promises.term, flags, (promises.vote or "").encode())
    data = preamble(segment, FileHeader(MAGIC_JOURNAL, group, 0, cluster_id, version), index, term, meta)
    data += segment.head(ENTRY, index, term, NO_OP) + NO_OP
    segment.batch = segment.size  # the file has no name before all of it is durable
    commit, current, flags, vote = meta
    data += segment.head(META, commit, current, vote, flags) + vote  # it proves that all before it was durable
    create_segment(disk, segment, data)
    disk.close(segment.fd)


def install_restored(directory: Path, manifest: Manifest, *, disk: Disk, cluster_id: bytes) -> None:
    """Make the journal of the first node of a cluster restored from this backup, as `install_journal` does.

    Its terms are above all terms of the old cluster. So every hand-over is newer than any that the old cluster made.
    Raises SnapshotRefused, DiskFailed.
    """
    term = manifest.applied_term + RESTORED_TERMS
    if term >= TERM_MAX:
        raise SnapshotRefused(f"the backup is of term {manifest.applied_term}: there are no terms left above it")
    install_journal(
        directory,
        disk,
        index=manifest.applied_index,
        term=manifest.applied_term,
        cluster_id=cluster_id,
        promises=Promises(term, None, voter=True),
        version=manifest.record.level,
    )
