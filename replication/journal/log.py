"""The entries of the log: the newest ones in memory, the others in segments. The caller sees one sequence of indexes.

Memory holds the newest entries up to a bound. Older entries are dropped from memory once they are durable. They are
read back when a follower lags or a restart applies them. So the log may be far larger than memory (R17).
"""

from itertools import islice

from replication.journal.segment import Entry, Segment
from storage.file.disk import Disk

ENTRY_OVERHEAD = 200
"""Bytes that an entry in memory costs beside its command: tuple, two numbers, bytes object."""


class Log:
    """The entries `first` to `last`. `next` is the index of the next entry, 0 if the log is empty and may begin at any
    index.

    Invariants: an empty log has first == last + 1. Entries tail_first..last are in memory. All entries before them are
    written to segments.
    """

    def __init__(self, disk: Disk, segments: list[Segment], after: int, tail_bytes: int, slice_bytes: int) -> None:
        """`segments`, oldest first, is the journal's own list, to which the journal appends. `after` is the index that
        follows their entries, 0 if any index may follow.
        """
        live = [segment for segment in segments if segment.offsets]
        self.next = after
        self.last = max(after - 1, 0)
        self.first = live[0].first if live else self.last + 1
        self.tail_first = self.last + 1
        self.tail_size = 0
        self._disk, self._segments = disk, segments
        self._tail_bytes, self._slice_bytes = tail_bytes, slice_bytes
        self._tail: list[Entry] = []
        self._head: Entry | None = None
        if live:
            self._tail = self._read(self.last, self.next)
            self.tail_first = self.last
            self.tail_size = len(self._tail[0][0]) + ENTRY_OVERHEAD

    def append(self, entry: Entry) -> None:
        """Append the next entry. The journal also notes its offset in the segment."""
        index = entry[1]
        if index != self.next:
            assert not self.next, f"entry {index}, expected {self.next}"
            self.first = self.tail_first = index
        self._tail.append(entry)
        self.tail_size += len(entry[0]) + ENTRY_OVERHEAD
        self.last = index
        self.next = index + 1

    def truncate(self, index: int) -> None:
        """Remove the entries from `index` on."""
        for segment in self._segments:
            segment.cut(index)
        keep = max(0, index - self.tail_first)
        self.tail_size -= sum(len(entry[0]) + ENTRY_OVERHEAD for entry in islice(self._tail, keep, None))
        del self._tail[keep:]
        self.next = index if any(segment.offsets for segment in self._segments) else 0
        self.last = max(index, self.first) - 1
        self.tail_first = min(self.tail_first, self.last + 1)
        self._head = None

    def forget(self, index: int) -> None:
        """Make `index` the first entry of the log. Older entries are not asked for again."""
        if index <= self.first:
            return
        self.first = index
        if index > self.tail_first:
            self._drop(min(len(self._tail), index - self.tail_first))

    def evict(self, durable_index: int) -> None:
        """If memory holds more than its bound, drop the oldest durable entries down to seven eighths of the bound, so
        that this is seldom done.
        """
        if self.tail_size <= self._tail_bytes:
            return
        size, count = self.tail_size, 0
        last = min(durable_index, self.last - 1)  # the newest entry is read all the time
        while size > self._tail_bytes - self._tail_bytes // 8 and self.tail_first + count <= last:
            size -= len(self._tail[count][0]) + ENTRY_OVERHEAD
            count += 1
        self._drop(count)

    def term(self, index: int) -> int | None:
        """The term of the entry at `index`, None if it is not in the log. Reads no file."""
        if not self.first <= index <= self.last:
            return None
        if index >= self.tail_first:
            return self._tail[index - self.tail_first][2]
        segment = self._segment(index)
        return segment.terms[index - segment.first]

    def entry(self, index: int) -> Entry:
        """The entry at `index`, which is in the log."""
        if index >= self.tail_first:
            return self._tail[index - self.tail_first]
        if index != self.first:
            return self._read(index, index + 1)[0]
        if self._head is None or self._head[1] != index:  # every message reads the first entry, so it stays in memory
            self._head = self._read(index, index + 1)[0]
        return self._head

    def entries(self, start: int, stop: int) -> list[Entry]:
        """Entries start <= index < stop, which are all in the log. Returns as many as slice_bytes holds, at least
        two.
        """
        if stop - start > 2:
            stop = self._bound(start, stop)
        if start >= self.tail_first:
            return self._tail[start - self.tail_first : stop - self.tail_first]
        middle = min(self.tail_first, stop)
        return self._read(start, middle) + self._tail[: stop - middle]

    def _bound(self, start: int, stop: int) -> int:
        """The end of a slice that begins at `start` and whose commands stay within slice_bytes."""
        size = 0
        for index in range(start, stop):
            if index >= self.tail_first:
                size += len(self._tail[index - self.tail_first][0])
            else:
                segment = self._segment(index)
                size += segment.lengths[index - segment.first]
            if size > self._slice_bytes and index >= start + 2:
                return index
        return stop

    def _drop(self, count: int) -> None:
        """Drop the oldest `count` entries of those in memory from memory."""
        self.tail_size -= sum(len(entry[0]) + ENTRY_OVERHEAD for entry in islice(self._tail, count))
        del self._tail[:count]
        self.tail_first += count

    def _read(self, start: int, stop: int) -> list[Entry]:
        """Entries start <= index < stop from the segments."""
        entries: list[Entry] = []
        while start < stop:
            segment = self._segment(start)
            part = min(stop, segment.end)
            entries += segment.read(self._disk, start, part)
            start = part
        return entries

    def _segment(self, index: int) -> Segment:
        return next(segment for segment in reversed(self._segments) if segment.first <= index < segment.end)
