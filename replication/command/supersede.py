"""The command Supersede with new messages that change the holders of their keys.

A message of `replace` cancels the holder and takes its key. A message of `extend` gives the holder another due time.
The leader looks up each holder, hands it over no more, and names it in the command. Apply changes no other holder,
because the leader may have handed that one over meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replication.command.column import DUE_MS_MAX, ColumnReader, pack_columns
from replication.command.entry import EntryRefused, Kind, Packed, Section
from replication.command.schedule import Schedule
from storage.format.array import I64, U8, U64
from storage.format.rows import Corrupt, FormatRefused
from storage.format.schedule_status import SUPERSEDES
from storage.record.record import Record
from storage.record.record_rewrite import read_drafts


@dataclass(frozen=True, slots=True)
class Supersede:
    """New messages, n rows, each with a key whose `on_conflict` is `replace` or `extend`."""

    messages: Schedule
    holder: U64  # [n] home of the message that the leader holds for this row, GONE if it knows no holder
    doubtful: U8  # [n] as in Cancel, of the holder
    max_wait_ms: I64  # [n] an extend makes the holder due at most so long after its creation
    due_only: U8  # [n] 1: an extend changes the due time alone, 0: all but id and creation

    def pack(self) -> Packed:
        """The command as a section."""
        _, rows, payload = self.messages.pack()
        columns = pack_columns(self.holder, self.doubtful, self.max_wait_ms, self.due_only)
        return Kind.SUPERSEDE, rows, [*payload, *columns]

    @classmethod
    def unpack(cls, section: Section) -> Supersede:
        """The command out of a section. Raises `EntryRefused` if its parts do not fit each other."""
        reader = ColumnReader(section.payload, section.rows)
        messages = Schedule.read(reader, section.rows)
        supersede = cls(
            messages,
            reader.column(np.uint64),
            reader.column(np.uint8),
            reader.column(np.int64),
            reader.column(np.uint8),
        )
        reader.end()
        if [key.row for key in messages.keys] != list(range(section.rows)):
            raise EntryRefused(f"{len(messages.keys)} keys of {section.rows} rows; one for each expected, in order")
        if any(key.on_conflict not in SUPERSEDES for key in messages.keys):
            raise EntryRefused("a key that leaves its holder alone stands in a command of another kind")
        wrong = supersede.max_wait_ms[(supersede.max_wait_ms < 0) | (supersede.max_wait_ms > DUE_MS_MAX)]
        if len(wrong):
            raise EntryRefused(f"a longest wait of {int(wrong[0])} ms; 0 to {DUE_MS_MAX} expected")
        try:
            supersede.records()
        except (Corrupt, FormatRefused, ValueError) as broken:
            raise EntryRefused(str(broken)) from None
        return supersede

    def records(self) -> list[Record]:
        """The records of the messages. Their ids, topics and creation times are 0."""
        return read_drafts(self.messages.blob, self.messages.size)
