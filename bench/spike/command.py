"""Commands that only the spike has: a fan-out, and leases and acks with a column that names the subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from replication.command.column import ColumnReader, pack_columns, pack_map
from replication.command.entry import Packed, Section
from storage.format.array import I64, U16, U32, U64

FAN_OUT: Final = 201
LEASES: Final = 202
ACKS: Final = 203


@dataclass(frozen=True, slots=True)
class FanOut:
    """Fans messages out, one row each: the position of the home, and a bit for each subscription. It is void unless the
    topic's list of subscriptions still has this revision."""

    home: U64
    mask: U64
    revision: int = 1

    def pack(self) -> Packed:
        """The command as a section."""
        return FAN_OUT, len(self.home), [pack_map({"revision": self.revision}), *pack_columns(self.home, self.mask)]

    @classmethod
    def unpack(cls, section: Section) -> FanOut:
        """The command out of a section."""
        reader = ColumnReader(section.payload, section.rows)
        revision = reader.map()["revision"]
        return cls(reader.column(np.uint64), reader.column(np.uint64), revision)


@dataclass(frozen=True, slots=True)
class Leases:
    """Hand-overs of messages to subscriptions. No stub stands for a message and a subscription, so a column says it."""

    position: U64
    subscription: U16
    attempt: U16
    lease_end_ms: I64
    handed_over_ms: I64

    def pack(self) -> Packed:
        """The command as a section."""
        columns = self.position, self.subscription, self.attempt, self.lease_end_ms, self.handed_over_ms
        return LEASES, len(self.position), pack_columns(*columns)

    @classmethod
    def unpack(cls, section: Section) -> Leases:
        """The command out of a section."""
        reader = ColumnReader(section.payload, section.rows)
        return cls(
            reader.column(np.uint64),
            reader.column(np.uint16),
            reader.column(np.uint16),
            reader.column(np.int64),
            reader.column(np.int64),
        )


@dataclass(frozen=True, slots=True)
class Acks:
    """Acks of hand-overs. `position` is that of the stub, or of the message if there are no stubs."""

    position: U64
    subscription: U16
    term: U32
    attempt: U16

    def pack(self) -> Packed:
        """The command as a section."""
        columns = self.position, self.subscription, self.term, self.attempt
        return ACKS, len(self.position), pack_columns(*columns)

    @classmethod
    def unpack(cls, section: Section) -> Acks:
        """The command out of a section."""
        reader = ColumnReader(section.payload, section.rows)
        return cls(
            reader.column(np.uint64), reader.column(np.uint16), reader.column(np.uint32), reader.column(np.uint16)
        )
