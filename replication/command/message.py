"""Commands about messages: cancel, reschedule, redrive. Their rows name messages by home, the position in the id.

Apply finds the place where a message lives now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from replication.command.column import ColumnReader, check_due, pack_columns
from replication.command.entry import Kind, Packed, Section
from storage.format.array import I64, U8, U32, U64


def _no_revision() -> U32:
    return np.empty(0, np.uint32)


def _no_doubt() -> U8:
    return np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Messages to cancel, n rows. `doubtful` is 1 for a message that a dead leader may have handed over without a
    record.
    """

    home: U64
    doubtful: U8
    revision: U32 = field(default_factory=_no_revision)  # [n] the client expects this one, 0 for any; or empty: any

    def pack(self) -> Packed:
        """The command as a section."""
        count = len(self.home)
        revision = self.revision if len(self.revision) else np.zeros(count, np.uint32)
        return Kind.CANCEL, count, pack_columns(self.home, self.doubtful, revision)

    @classmethod
    def unpack(cls, section: Section) -> Cancel:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        cancel = cls(reader.column(np.uint64), reader.column(np.uint8), reader.column(np.uint32))
        reader.end()
        return cancel


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Messages that get another due time, n rows. `doubtful` is as in Cancel. It is kept with the message, because a
    later cancel needs it.
    """

    home: U64
    due_ms: I64  # absolute, as asked; apply clamps it
    revision: U32 = field(default_factory=_no_revision)  # as in Cancel
    doubtful: U8 = field(default_factory=_no_doubt)  # [n], or empty: no message is doubtful

    def pack(self) -> Packed:
        """The command as a section."""
        count = len(self.home)
        revision = self.revision if len(self.revision) else np.zeros(count, np.uint32)
        doubtful = self.doubtful if len(self.doubtful) else np.zeros(count, np.uint8)
        return Kind.RESCHEDULE, count, pack_columns(self.home, self.due_ms, revision, doubtful)

    @classmethod
    def unpack(cls, section: Section) -> Reschedule:
        """The command out of a section. Raises `EntryRefused`, also for a due time beyond the last hour."""
        reader = ColumnReader(section.payload, section.rows)
        home, due_ms = reader.column(np.uint64), reader.column(np.int64)
        revision, doubtful = reader.column(np.uint32), reader.column(np.uint8)
        reader.end()
        check_due(due_ms)
        return cls(home, due_ms, revision, doubtful)


@dataclass(frozen=True, slots=True)
class Redrive:
    """Dead messages to schedule again, n rows. The retry policy then counts their attempts anew."""

    home: U64
    due_ms: I64  # absolute; apply clamps it

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.REDRIVE, len(self.home), pack_columns(self.home, self.due_ms)

    @classmethod
    def unpack(cls, section: Section) -> Redrive:
        """The command out of a section. Raises `EntryRefused`, also for a due time beyond the last hour."""
        reader = ColumnReader(section.payload, section.rows)
        redrive = cls(reader.column(np.uint64), reader.column(np.int64))
        reader.end()
        check_due(redrive.due_ms)
        return redrive
