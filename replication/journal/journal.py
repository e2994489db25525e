"""pysyncobj's journal, repaired: nothing that depends on a write leaves the node before the write is on disk.

The stock journal never syncs before success is answered, and cuts identical entries and writes them again. It has the
whole log in memory, rewrites itself in place, and dies of SIGBUS on a full disk (R1, R2, R9, R11, R14, R17). Here a
write is buffered and numbered (`write_seq`). One `Sync` after the other makes the writes durable off the event loop
(`durable_seq`). A message that depends on a write waits until `durable_seq` reaches the write's number.

R2: pysyncobj answers every append_entries by first deleting all entries behind `prevLogIdx`, though most of them are
about to come again. So here deleting only shortens the *view*, the part of the log that pysyncobj sees. `add` of an
entry with the same (index, term) lengthens the view again. A different one is a conflict, and removes the old entries
from the log.

pysyncobj ends the handling of every such message with `setRaftCommitIndex`. That call lengthens the view to the whole
log again. It must not happen earlier: before that call pysyncobj computes its commit index as min(leader's, end of
log). That is right only while the log ends with the last entry that this message has verified.
"""

from collections.abc import Callable
from pathlib import Path
from typing import overload

import pysyncobj.journal

from replication.journal.log import Log
from replication.journal.record import ENTRY, KIND_AT, META, TRUNCATE, VOTED, VOTER
from replication.journal.recovery import NO_CLUSTER, Recovered, recover
from replication.journal.segment import Entry, Segment
from replication.journal.sync import Sync, preamble
from storage.file.disk import Disk
from storage.format.rows import MAGIC_JOURNAL, FileHeader

SEGMENT_BYTES = 64 << 20
TAIL_BYTES = 4 << 20
SLICE_BYTES = 8 << 20


def _first_version(_: bytes) -> int:
    return 1


class Journal(pysyncobj.journal.Journal):  # type: ignore[misc]  # pysyncobj has no types
    """The log of one Raft group, with its term, vote, voter flag and commit index. Only Sync.run runs off the loop.

    Positions given to and by pysyncobj (`len`, `[i]`, deleteEntriesFrom) count from the first entry of the view. Our
    own functions take the `index` of an entry. Invariants: view <= last_index; durable_index <= last_index; durable_seq
    <= write_seq. Only DiskFailed and Corrupt are raised, and both end the process.
    """

    def __init__(
        self, found: Recovered, disk: Disk, group: int, segment_bytes: int, log: Log, version_of: Callable[[bytes], int]
    ) -> None:
        """Called by `open` only. `found` is the result of `recover`."""
        self.created = found.created
        """True if there was no journal: the directory is new, or was emptied."""
        self.write_seq = self.durable_seq = 0
        """Numbers of the newest buffered and the newest durable write since the start."""
        self.written_bytes = 0
        """Bytes handed to the disk since the start. They tell when a checkpoint is due."""
        self.durable_index = log.last
        """All entries up to this index are on this disk."""
        self.voter = found.voter
        self.cluster_id = found.cluster_id
        self._disk, self._group, self._segment_bytes = disk, group, segment_bytes
        self._segments = found.segments
        self._active = found.segments[-1]
        self._log = log
        self._version_of, self._version = version_of, self._active.version
        self._view = log.last
        self._cleared = False
        self._term, self._vote = found.term, found.vote
        self._commit = self._commit_kept = max(1, min(found.commit, log.last))  # R11: never past the log
        self._pending: list[bytes] = []
        self._flight: Sync | None = None
        self._doomed: list[Segment] = []
        self._sealed = found.sealed
        self._seal()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        disk: Disk,
        group: int = 0,
        cluster_id: bytes | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        tail_bytes: int = TAIL_BYTES,
        slice_bytes: int = SLICE_BYTES,
        version_of: Callable[[bytes], int] = _first_version,
    ) -> "Journal":
        """Open or create the journal in `directory` (which exists). Blocks the calling thread for a few fdatasyncs.

        - `cluster_id`: 16 bytes, None before Genesis.
        - `segment_bytes`: a segment that is this long is followed by a new one.
        - `tail_bytes`: how much of the log's end is in memory.
        - `slice_bytes`: the bound on the entries that one read of a slice returns.
        - `version_of`: the version of a command. The first command of a newer version begins a segment of that version,
          which older builds refuse by name.

        Raises Corrupt, FormatRefused (see replication/journal/recovery.py), DiskFailed.
        """
        found = recover(directory, disk, group, cluster_id)
        log = Log(disk, found.segments, found.next, tail_bytes, slice_bytes)
        return cls(found, disk, group, segment_bytes, log, version_of)

    # pysyncobj calls these.

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append the entry. If the view was shortened and the log has the same entry at this index, only lengthen the
        view.
        """
        log = self._log
        if (self._view != log.last or self._cleared) and self._take_back(idx, term):
            return
        if idx != log.next and log.next and log.first > log.last:
            self._truncate(1)  # an emptied log may begin at any index
        segment = self._active
        offset = segment.size
        self._pending += (segment.head(ENTRY, idx, term, command), command)
        log.append((command, idx, term))
        segment.place(idx, term, offset, len(command))
        self._version = max(self._version, self._version_of(command))
        self._view = idx
        self.write_seq += 1

    def clear(self) -> None:
        """Empty the view. The next `add` decides what follows. If the log has its entry, that entry becomes the first
        one of the log. Otherwise the entry replaces the whole log.
        """
        self._settle()
        self._cleared = True

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        """Shorten the view to its first `entryFrom` entries. The others are removed from the log only if `add` brings a
        different entry.
        """
        self._settle()
        self._view = min(self._log.last, self._log.first + entryFrom - 1)

    def deleteEntriesTo(self, entryTo: int) -> None:
        """Drop the first `entryTo` entries. Only whole segments are unlinked, so a restart brings some entries back."""
        index = min(self._log.first + entryTo, self._log.last + 1)
        self.trim(min(index, self._log.last))
        self._log.forget(index)

    @overload
    def __getitem__(self, item: int) -> Entry: ...

    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...

    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        """The entry at a position. Or, for a slice, as many of its first entries as fit into `slice_bytes`, at least
        two.

        pysyncobj takes a slice of one entry to mean that no other follows. Its loops go on where a slice ended.
        """
        first = self._log.first
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            assert step == 1, f"slice with step {step}"
            return self._log.entries(first + start, first + stop) if start < stop else []
        index = first + item if item >= 0 else self._view + 1 + item
        if not first <= index <= self._view or self._cleared:
            raise IndexError(f"journal position {item} of {len(self)}")
        return self._log.entry(index)

    def __len__(self) -> int:
        """The number of entries in the view."""
        return 0 if self._cleared else self._view - self._log.first + 1

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """Buffer term and vote. No message that shows them may leave before `durable_seq` has reached `write_seq`."""
        if (term, votedForNodeId) == (self._term, self._vote):
            return
        assert term >= self._term, f"term {term} after {self._term}"
        self._term, self._vote = term, votedForNodeId
        self._write_meta()

    def getCurrentTerm(self) -> int:
        """The term that was set last, or that was found at the start."""
        return self._term

    def getVotedForNodeId(self) -> str | None:
        """The node that this node voted for in the current term, None if it gave no vote."""
        return self._vote

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        """Set the commit index. A lower one than before has no effect. Lengthen the view to the whole log again."""
        self._settle()
        self._commit = max(self._commit, raftCommitIndex)

    def getRaftCommitIndex(self) -> int:
        """The commit index. At the start it is the newest one on disk, but never past the end of the log (R11)."""
        return self._commit

    def onOneSecondTimer(self) -> None:
        """Buffer the commit index if it has changed. Its record also proves the writes before it durable
        (recovery.py).
        """
        self.keep_commit()

    def keep_commit(self) -> None:
        """Buffer the commit index if it has changed. The next sync writes it."""
        if self._commit != self._commit_kept:
            self._write_meta()

    def _destroy(self) -> None:
        self.close()

    # Our own.

    @property
    def first_index(self) -> int:
        """Index of the log's oldest entry; last_index + 1 if the log is empty."""
        return self._log.first

    @property
    def last_index(self) -> int:
        """Index of the log's newest entry, also while the view is shorter."""
        return self._log.last

    def term_at(self, index: int) -> int | None:
        """Term of the entry at `index`, None if it is not in the log. Reads no file."""
        return self._log.term(index)

    def set_voter(self, voter: bool) -> None:
        """Buffer the voter flag. It is durable before any vote leaves, because the vote's record comes later in the
        journal.
        """
        if voter != self.voter:
            self.voter = voter
            self._write_meta()

    def set_cluster_id(self, cluster_id: bytes) -> None:
        """Set the cluster's id (16 bytes), when Genesis is applied. The header of each later segment has it."""
        assert self.cluster_id in (NO_CLUSTER, cluster_id), "the journal of another cluster"
        self.cluster_id = cluster_id

    def trim(self, to_index: int) -> None:
        """Drop the segments that hold only entries below `to_index`, which a durable checkpoint covers. Their files are
        unlinked later, one with each sync.
        """
        self._settle()
        assert to_index <= self._log.last, f"trim to {to_index} of {self._log.last}"
        busy = self._flight.segment if self._flight else self._active
        while self._segments[0] not in (busy, self._active):
            oldest = self._segments[0]
            if oldest.offsets and oldest.end > to_index:
                break
            self._doomed.append(self._segments.pop(0))
        self._log.forget(next((segment.first for segment in self._segments if segment.offsets), self._log.last + 1))

    @property
    def kept_bytes(self) -> int:
        """The size of all segments that are not dropped, in bytes. Bytes that are not yet written are included."""
        return sum(segment.size for segment in self._segments)

    def bytes_from(self, index: int) -> int:
        """The size in bytes of the segment with the entry `index` and of all later ones: what it costs to keep this
        entry.
        """
        return sum(segment.size for segment in self._segments if segment.end > index or segment is self._active)

    def first_within(self, limit_bytes: int) -> int:
        """The index of the first entry in the newest segments that have at most `limit_bytes` together. The last
        segment is always one of them.
        """
        first, held = self._log.last, 0
        for segment in reversed(self._segments):
            held += segment.size
            if held > limit_bytes and segment is not self._active:
                break
            first = segment.first if segment.offsets else first
        return first

    def collect(self) -> Sync | None:
        """Gather the buffered writes into a Sync, which the caller runs in a thread. None if there are none or a sync
        is under way.

        Raises the error of the last sync if that failed, because a failed sync is not tried again.
        """
        if self._flight is not None:
            if self._flight.error is not None:
                raise self._flight.error
            return None
        self._settle()
        if not self._pending and not self._doomed:
            return None
        active, pending = self._active, self._pending
        self._pending = []  # also if empty: the list is the thread's from here on
        sync = self._flight = Sync(self._disk, active, pending, self.write_seq, self._log.last)
        if pending:
            self.written_bytes += active.size - active.batch
            self._sealed = len(pending) == 2 and pending[0][KIND_AT] == META
            active.batch = active.size
            if active.size >= self._segment_bytes or active.version < self._version:
                sync.next = self._begin_segment()
        if self._doomed:
            sync.doomed = self._doomed.pop(0)
        return sync

    def done(self, sync: Sync) -> None:
        """Note that a sync has run, so that its writes are durable. Raises the error of the sync if it failed."""
        assert sync is self._flight, "a sync that is not under way"
        if sync.error is not None:
            raise sync.error
        assert sync.ran, "done before run"
        self._flight = None
        self.durable_seq = sync.seq
        self.durable_index = sync.last
        self._log.evict(sync.last)

    def sync_now(self) -> None:
        """Make all buffered writes durable. Blocks the calling thread. For tests, start and shutdown."""
        assert self._flight is None or self._flight.error is not None, "a sync is under way"
        while sync := self.collect():
            sync.run()
            self.done(sync)

    def close(self) -> None:
        """Make all writes durable, and write a record that proves it (recovery.py). Then close the files. After a
        failed sync only close them.
        """
        if self._flight is None:
            self.sync_now()
            self._seal()
        else:
            ended = self._flight.ran or self._flight.error is not None
            assert ended, "a sync is under way"  # it ran and was not accounted for: the node failed meanwhile
        for segment in [*self._segments, *self._doomed]:
            if segment.fd >= 0:
                self._disk.close(segment.fd)
                segment.fd = -1

    # Details.

    def _take_back(self, idx: int, term: int) -> bool:
        """Called by `add` after the view was shortened. Returns True if the log has this entry already. If the log has
        another entry at `idx`, removes that and all behind it.
        """
        same = self._log.term(idx) == term
        if self._cleared:
            self._cleared = False
            if same:
                self._log.forget(idx)
            else:
                self._truncate(1)
        else:
            assert idx == self._view + 1, f"entry {idx} behind {self._view}"
            if not same:
                self._truncate(idx)
        self._view = idx if same else self._log.last
        return same

    def _settle(self) -> None:
        """Lengthen the view to the whole log again."""
        self._view = self._log.last
        self._cleared = False

    def _truncate(self, index: int) -> None:
        """Remove the entries from `index` on from the log. After a restart they are absent too, once the TRUNCATE
        record is durable.
        """
        self._pending.append(self._active.head(TRUNCATE, index, self._term, b""))
        self.write_seq += 1
        self._log.truncate(index)
        self.durable_index = min(self.durable_index, index - 1)
        if self._flight is not None:
            self._flight.last = min(self._flight.last, index - 1)

    def _write_meta(self) -> None:
        commit, term, flags, vote = self._meta()
        self._pending += (self._active.head(META, commit, term, vote, flags), vote)
        self._commit_kept = self._commit
        self.write_seq += 1

    def _meta(self) -> tuple[int, int, int, bytes]:
        """The fields of a META record, as they are now: (commit, term, flags, vote)."""
        flags = (VOTER if self.voter else 0) | (VOTED if self._vote is not None else 0)
        return self._commit, self._term, flags, (self._vote or "").encode()

    def _begin_segment(self) -> tuple[Segment, bytes]:
        """Begin the next segment, because the active one is full or of an older version. Return it with its first
        bytes.
        """
        segment = Segment(self._active.path.parent, self._active.sequence + 1, self._version)
        header = FileHeader(MAGIC_JOURNAL, self._group, 0, self.cluster_id, segment.version)
        data = preamble(segment, header, self._log.next, self.term_at(self._log.last) or 0, self._meta())
        self._segments.append(segment)
        self._active = segment
        self._sealed = True  # all before it is durable before it exists
        self._commit_kept = self._commit
        return segment, data

    def _seal(self) -> None:
        """Write a META that proves all before it durable (recovery.py), unless the last write was a META alone."""
        if not self._sealed:
            self._write_meta()
            self.sync_now()
