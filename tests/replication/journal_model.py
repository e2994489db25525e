"""A dumb list that does what the journal should, beside the journal: for the property and the crash tests.

Every call goes to both. The model remembers what the log and the promises were after each numbered write, so that after
a crash it can say which states the files may hold: any from the last durable write to the last one handed to the disk.
"""

from pathlib import Path
from random import Random

from replication.journal.journal import Journal
from replication.journal.segment import Entry
from replication.journal.sync import Sync
from tests.replication.memory_disk import MemoryDisk, Stopped

HERE = Path("journal")

State = tuple[tuple[Entry, ...], int, str | None, bool]
"""Entries, term, vote, voter."""


class Model:
    """`log` is the view, `stash` what a deletion hid, `older` what was dropped but may return after a restart."""

    def __init__(self, disk: MemoryDisk) -> None:
        """On an empty disk; `start` opens the journal."""
        self.disk = disk
        self.sync: Sync | None = None
        self.needed = 0
        self.commit_max = 1
        self.history: dict[int, State] = {0: ((), 0, None, False)}
        self.handed = self.durable = 0

    def _open(self) -> None:
        """Open, and believe what is there."""
        self.journal = Journal.open(HERE, disk=self.disk, segment_bytes=600, tail_bytes=1500, slice_bytes=400)
        self.sync = None
        self.older: list[Entry] = []
        self.log = self.read()
        self.stash: list[Entry] = []
        self.cleared = False
        self.term = self.journal.getCurrentTerm()
        self.vote = self.journal.getVotedForNodeId()
        self.voter = self.journal.voter
        self.commit = self.commit_kept = self.journal.getRaftCommitIndex()
        self.history = {}
        self.handed = self.durable = self.journal.durable_seq
        self._remember(self.journal.write_seq)

    def read(self) -> list[Entry]:
        """The journal's view, in as many slices as it takes."""
        entries: list[Entry] = []
        while part := self.journal[len(entries) :]:
            assert len(part) >= 2 or len(entries) + len(part) == len(self.journal)
            entries += part
        return entries

    def _remember(self, seq: int) -> None:
        self.seq = seq
        self.history[seq] = ((*self.older, *self.log, *self.stash), self.term, self.vote, self.voter)

    def check(self) -> None:
        """The journal is the model."""
        journal, log = self.journal, self.log
        assert self.read() == log
        assert len(journal) == len(log)
        assert [journal[i] for i in range(len(log))] == log
        assert [journal.term_at(index) for _, index, _ in log] == [term for _, _, term in log]
        assert journal.write_seq == self.seq
        assert journal.durable_seq == self.durable
        assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.voter) == (
            self.term,
            self.vote,
            self.voter,
        )
        certain = set(self.history[self.durable][0])
        assert [e[1] for e in log if e[1] <= journal.durable_index and e not in certain] == []

    def settle(self) -> None:
        """What was not contradicted is back."""
        self.log, self.stash, self.cleared = self.log + self.stash, [], False

    def add(self, entry: Entry) -> None:
        """Append, take back, or contradict."""
        self.journal.add(*entry)
        if self.cleared:
            self.cleared = False
            while self.stash and self.stash[0][1] < entry[1]:
                self.older.append(self.stash.pop(0))
            if not self.stash or self.stash[0][1:] != entry[1:]:
                self.older, self.stash = [], []
                self._remember(self.seq + 1)
        if self.stash and self.stash[0][1:] == entry[1:]:
            self.log.append(self.stash.pop(0))
            return
        if self.stash:
            self.stash = []
            self._remember(self.seq + 1)
        self.log.append(entry)
        self._remember(self.seq + 1)

    def delete_from(self, position: int) -> None:
        """pysyncobj's first answer to every message."""
        self.journal.deleteEntriesFrom(position)
        self.settle()
        self.log, self.stash = self.log[:position], self.log[position:]

    def clear(self) -> None:
        """pysyncobj's answer to a snapshot."""
        self.journal.clear()
        self.settle()
        self.log, self.stash, self.cleared = [], self.log, True

    def set_commit(self, index: int) -> None:
        """pysyncobj's last answer to every message."""
        self.journal.setRaftCommitIndex(index)
        self.settle()
        self.commit = max(self.commit, index)
        self.commit_max = max(self.commit_max, index)

    def set_term(self, term: int, vote: str | None) -> None:
        """A promise."""
        self.journal.setCurrentTerm(term, vote)
        if (term, vote) != (self.term, self.vote):
            self.term, self.vote = term, vote
            self.commit_kept = self.commit
            self._remember(self.seq + 1)

    def set_voter(self) -> None:
        """The other promise."""
        self.journal.set_voter(True)
        if not self.voter:
            self.voter = True
            self.commit_kept = self.commit
            self._remember(self.seq + 1)

    def timer(self) -> None:
        """A second has passed."""
        self.journal.onOneSecondTimer()
        if self.commit != self.commit_kept:
            self.commit_kept = self.commit
            self._remember(self.seq + 1)

    def trim(self, index: int) -> None:
        """A checkpoint covers what is below `index`."""
        self.journal.trim(index)
        self.settle()
        self.needed = max(self.needed, index)
        self._drop(self.journal.first_index)

    def delete_to(self, position: int) -> None:
        """pysyncobj's own trim."""
        self.needed = max(self.needed, min(self.journal.first_index + position, self.journal.last_index))
        self.journal.deleteEntriesTo(position)
        self.settle()
        self._drop(self.journal.first_index)

    def _drop(self, first: int) -> None:
        assert not [entry for entry in self.log if entry[1] < first and entry[1] >= self.needed]
        self.older += [entry for entry in self.log if entry[1] < first]
        self.log = [entry for entry in self.log if entry[1] >= first]

    def collect(self) -> None:
        """Hand over what waits."""
        if self.sync is None:
            begins = self.journal._active.size >= self.journal._segment_bytes
            self.sync = self.journal.collect()
            self.settle()
            if self.sync is not None:
                self.handed = self.sync.seq
                if begins:
                    self.commit_kept = self.commit

    def run(self) -> None:
        """The thread does its part, the loop counts it."""
        if self.sync is not None:
            self.sync.run()
            self.journal.done(self.sync)
            self.durable = self.sync.seq
            self.sync = None

    def write(self) -> None:
        """Collect and run until all is durable."""
        while self.journal._pending or self.journal._doomed or self.sync is not None:
            self.collect()
            self.run()

    def crash(self, cut: Random | None) -> None:
        """Die, losing power too if `cut` is given; open again; compare with what may be there."""
        if cut is None:
            self.disk.kill()
        else:
            self.disk.power_cut(cut)
        self.start()

    def start(self) -> None:
        """Open what a crash left; compare with what may be there."""
        history, low, high = self.history, self.durable, self.handed
        self._open()
        entries = tuple(self.log)
        first = entries[0][1] if entries else 0
        matching = [
            seq
            for seq in range(low, high + 1)
            if seq in history
            and history[seq][1:] == (self.term, self.vote, self.voter)
            and tuple(e for e in history[seq][0] if e[1] >= first and entries) == entries
            and (entries or not history[seq][0])
            and (not entries or first <= max(self.needed, history[seq][0][0][1]))
        ]
        assert matching, f"nothing between writes {low} and {high} left this behind"
        assert 1 <= self.commit <= max(1, self.journal.last_index)
        assert self.commit <= self.commit_max
        self.check()

    def stop_in_sync(self, call: int, torn: int) -> bool:
        """Run the sync under way up to its `call`-th call to the disk. True if it got there and stopped."""
        if self.sync is None:
            return False
        self.disk.torn = torn
        self.disk.stop_at = len(self.disk.calls) + call
        try:
            self.run()
        except Stopped:
            return True
        finally:
            self.disk.stop_at = 0
        return False
