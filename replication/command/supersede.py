"""The commands Supersede and ScheduleAll with new messages that change the holders of their keys.

A message of `replace` cancels the holder and takes its key. A message of `extend` gives the holder another due time.
The leader looks up each holder, hands it over no more, and names it in the command. Apply changes no other holder,
because the leader may have handed that one over meanwhile.

Supersede has messages of many requests. Each takes effect for itself. ScheduleAll is one request, and all of its
messages are written or none. They may also be of the rules that leave the holder alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from replication.command.column import DUE_MS_MAX, ColumnReader, Rows, pack_columns
from replication.command.entry import EntryRefused, Kind, Packed, Section
from replication.command.schedule import Schedule
from storage.format.array import I64, U8, U64
from storage.format.rows import Corrupt, FormatRefused
from storage.format.schedule_status import SUPERSEDES
from storage.record.record import Record
from storage.record.record_rewrite import read_drafts


class Changes(NamedTuple):
    """How messages change the holders of their keys, [n] each."""

    holder: U64  # home of the message that the leader holds for this row, GONE if it knows no holder
    doubtful: U8  # as in Cancel, of the holder
    max_wait_ms: I64  # an extend makes the holder due at most so long after its creation
    due_only: U8  # 1: an extend changes the due time alone, 0: all but id and creation

    @classmethod
    def read(cls, reader: ColumnReader) -> Changes:
        """The next columns of a section. Raises `EntryRefused`."""
        dtypes = (np.uint64, np.uint8, np.int64, np.uint8)
        changes = cls(*map(reader.column, dtypes))
        wrong = changes.max_wait_ms[(changes.max_wait_ms < 0) | (changes.max_wait_ms > DUE_MS_MAX)]
        if len(wrong):
            raise EntryRefused(f"a longest wait of {int(wrong[0])} ms; 0 to {DUE_MS_MAX} expected")
        return changes

    def of_rows(self, rows: Rows) -> Changes:
        """The changes of these rows."""
        return Changes(self.holder[rows], self.doubtful[rows], self.max_wait_ms[rows], self.due_only[rows])


@dataclass(frozen=True, slots=True)
class Supersede:
    """New messages, n rows, each with a key whose `on_conflict` is `replace` or `extend`."""

    messages: Schedule
    changes: Changes

    def pack(self) -> Packed:
        """The command as a section."""
        _, rows, payload = self.messages.pack()
        return Kind.SUPERSEDE, rows, [*payload, *pack_columns(*self.changes)]

    @classmethod
    def unpack(cls, section: Section) -> Supersede:
        """The command out of a section. Raises `EntryRefused` if its parts do not fit each other."""
        reader = ColumnReader(section.payload, section.rows)
        messages = Schedule.read(reader, section.rows)
        supersede = cls(messages, Changes.read(reader))
        reader.end()
        _check_keys(messages, section.rows)
        if any(key.on_conflict not in SUPERSEDES for key in messages.keys):
            raise EntryRefused("a key that leaves its holder alone stands in a command of another kind")
        supersede.check_records()
        return supersede

    def records(self) -> list[Record]:
        """The records of the messages. Their ids, topics and creation times are 0."""
        return read_drafts(self.messages.blob, self.messages.size)

    def check_records(self) -> None:
        """Raise `EntryRefused` if a record is not well formed."""
        try:
            self.records()
        except (Corrupt, FormatRefused, ValueError) as broken:
            raise EntryRefused(str(broken)) from None


@dataclass(frozen=True, slots=True)
class ScheduleAll:
    """New messages that are written in one step: all of them, or none. Each has a key of its own. `changes` is None if
    no row changes the holder of its key."""

    messages: Schedule
    changes: Changes | None = None

    def pack(self) -> Packed:
        """The command as a section."""
        _, rows, payload = self.messages.pack()
        return Kind.SCHEDULE_ALL, rows, [*payload, *pack_columns(*self.changes or ())]

    @classmethod
    def unpack(cls, section: Section) -> ScheduleAll:
        """The command out of a section. Raises what Schedule.unpack raises, and `EntryRefused` for a row without a key
        of its own."""
        reader = ColumnReader(section.payload, section.rows)
        messages = Schedule.read(reader, section.rows)
        _check_keys(messages, section.rows)
        if len({(int(messages.topic[key.row]), key.key) for key in messages.keys}) < section.rows:
            raise EntryRefused("two rows with one key; all or none of them may be scheduled")
        some = any(key.on_conflict in SUPERSEDES for key in messages.keys)
        command = cls(messages, Changes.read(reader) if some else None)
        reader.end()
        if (changing := command.changing()) is not None:
            changing[1].check_records()
        return command

    def plain(self) -> tuple[Rows, Schedule]:
        """The rows that leave the holders of their keys alone, as a command of their own."""
        rows = self._rows(changing=False)
        return rows, self.messages if self.changes is None else self.messages.of_rows(rows)

    def changing(self) -> tuple[Rows, Supersede] | None:
        """The rows that change the holders of their keys, as a command of their own. None if there are none."""
        if self.changes is None:
            return None
        rows = self._rows(changing=True)
        return rows, Supersede(self.messages.of_rows(rows), self.changes.of_rows(rows))

    def _rows(self, *, changing: bool) -> Rows:
        keys = self.messages.keys
        return np.array([key.row for key in keys if (key.on_conflict in SUPERSEDES) is changing], np.intp)


def _check_keys(messages: Schedule, rows: int) -> None:
    """Raise `EntryRefused` unless each row has a key, in the order of the rows."""
    if [key.row for key in messages.keys] != list(range(rows)):
        raise EntryRefused(f"{len(messages.keys)} keys of {rows} rows; one for each expected, in order")
