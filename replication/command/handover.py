"""Commands about hand-overs, whose rows name units by their place: Lease, Release, Settle, Fail and Extend.

Settle, Fail and Extend name a hand-over by (place, term, attempt), as a receipt does. A Lease records a hand-over. A
Release takes back a lease whose hand-over never began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from replication.command.column import ColumnReader, check_due, filled, pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.format.array import I64, U8, U16, U32, U64

RETRY, DEAD, AGAIN = 1, 2, 3
"""What follows a failed hand-over: another attempt, no other attempt, or another one because this one never began.

After AGAIN the failed attempt does not count for the retry policy.
"""

TEXT_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Lease:
    """Records hand-overs that were made (fast) or are about to be made (strict): columns of n rows.

    If `planned`, they are strict pushes. Each push is made at its `handed_over_ms` and not before. That time may lie in
    the future.
    """

    position: U64
    attempt: U16
    lease_end_ms: I64
    handed_over_ms: I64
    subscription: int = 0
    planned: bool = False

    def pack(self) -> Packed:
        """The command as a section."""
        columns = pack_columns(self.position, self.attempt, self.lease_end_ms, self.handed_over_ms)
        value: dict[str, Any] = {"subscription": self.subscription}
        if self.planned:
            value["planned"] = True
        return Kind.LEASE, len(self.position), [pack_map(value), *columns]

    @classmethod
    def unpack(cls, section: Section) -> Lease:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        position, attempt = reader.column(np.uint64), reader.column(np.uint16)
        lease_end_ms, handed_over_ms = reader.column(np.int64), reader.column(np.int64)
        reader.end()
        planned = filled(value.get("planned", False), bool, "planned")
        return cls(position, attempt, lease_end_ms, handed_over_ms, _subscription(value), planned)


@dataclass(frozen=True, slots=True)
class Release:
    """Takes back the leases of these hand-overs, named by (position, term, attempt). The hand-overs never began, and
    never will.
    """

    position: U64
    term: U32
    attempt: U16
    subscription: int = 0

    def pack(self) -> Packed:
        """The command as a section."""
        columns = pack_columns(self.position, self.term, self.attempt)
        return Kind.RELEASE, len(self.position), [pack_map({"subscription": self.subscription}), *columns]

    @classmethod
    def unpack(cls, section: Section) -> Release:
        """The command out of a section. Raises `EntryRefused`."""
        subscription, columns = _of_subscription(section, (np.uint64, np.uint32, np.uint16))
        position, term, attempt = columns
        return cls(position, term, attempt, subscription)


@dataclass(frozen=True, slots=True)
class Settle:
    """Acks. Each row names a hand-over by (position, term, attempt). `code` is a reason or an HTTP status."""

    position: U64
    term: U32
    attempt: U16
    code: U16
    subscription: int = 0

    def pack(self) -> Packed:
        """The command as a section."""
        columns = pack_columns(self.position, self.term, self.attempt, self.code)
        payload = [pack_map({"subscription": self.subscription}), *columns]
        return Kind.SETTLE, len(self.position), payload

    @classmethod
    def unpack(cls, section: Section) -> Settle:
        """The command out of a section. Raises `EntryRefused`."""
        subscription, columns = _of_subscription(section, (np.uint64, np.uint32, np.uint16, np.uint16))
        position, term, attempt, code = columns
        return cls(position, term, attempt, code, subscription)


@dataclass(frozen=True, slots=True)
class Fail:
    """Hand-overs that failed, and the leader's decision for each. RETRY: another attempt at `due_ms`. AGAIN: the same,
    but the retry policy does not count this hand-over, because it never began. DEAD: no further attempt.
    """

    position: U64
    term: U32
    attempt: U16
    code: U16  # HTTP status or reason
    fate: U8  # RETRY, DEAD or AGAIN
    due_ms: I64  # of the next attempt; 0 for DEAD
    random: U64  # random bits of the id that a dead-letter copy gets
    texts: tuple[bytes, ...] = ()  # UTF-8, the text of each failure; one for each row, or an empty tuple
    subscription: int = 0

    def pack(self) -> Packed:
        """The command as a section. A text is cut at 1 KB."""
        texts = [text[:TEXT_BYTES_MAX] for text in self.texts]
        payload = [
            pack_map({"subscription": self.subscription, "texts": texts}),
            *pack_columns(self.position, self.term, self.attempt, self.code, self.fate, self.due_ms, self.random),
        ]
        return Kind.FAIL, len(self.position), payload

    @classmethod
    def unpack(cls, section: Section) -> Fail:
        """The command out of a section. Raises `EntryRefused`, also for impossible fates, due times or texts."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        position, term, attempt = reader.column(np.uint64), reader.column(np.uint32), reader.column(np.uint16)
        code, fate = reader.column(np.uint16), reader.column(np.uint8)
        due_ms, random = reader.column(np.int64), reader.column(np.uint64)
        reader.end()
        if ((fate < RETRY) | (fate > AGAIN)).any():
            raise EntryRefused(f"fates {sorted(set(fate.tolist()))}; {RETRY} to {AGAIN} are known")
        check_due(due_ms)
        texts = tuple(filled(text, bytes, "text") for text in filled(value.get("texts"), list, "texts"))
        if len(texts) not in (0, section.rows) or any(len(text) > TEXT_BYTES_MAX for text in texts):
            raise EntryRefused(
                f"{len(texts)} texts for {section.rows} rows, or one of more than {TEXT_BYTES_MAX} bytes"
            )
        return cls(position, term, attempt, code, fate, due_ms, random, texts, _subscription(value))


@dataclass(frozen=True, slots=True)
class Extend:
    """Leases that get another end, `lease_end_ms`. Each row names the hand-over of the lease by (position, term,
    attempt).
    """

    position: U64
    term: U32
    attempt: U16
    lease_end_ms: I64
    subscription: int = 0

    def pack(self) -> Packed:
        """The command as a section."""
        columns = pack_columns(self.position, self.term, self.attempt, self.lease_end_ms)
        return Kind.EXTEND, len(self.position), [pack_map({"subscription": self.subscription}), *columns]

    @classmethod
    def unpack(cls, section: Section) -> Extend:
        """The command out of a section. Raises `EntryRefused`."""
        subscription, columns = _of_subscription(section, (np.uint64, np.uint32, np.uint16, np.int64))
        position, term, attempt, lease_end_ms = columns
        return cls(position, term, attempt, lease_end_ms, subscription)


def _of_subscription(section: Section, kinds: Sequence[type[np.generic]]) -> tuple[int, list[npt.NDArray[Any]]]:
    """The number of the subscription from a section's map, and the section's columns, which have these types."""
    reader = ColumnReader(section.payload, section.rows)
    subscription = _subscription(reader.map())
    columns = [reader.column(kind) for kind in kinds]
    reader.end()
    return subscription, columns


def _subscription(value: dict[str, Any]) -> int:
    subscription: int = filled(value.get("subscription"), int, "subscription")
    if not 0 <= subscription < 1 << 16:
        raise EntryRefused(f"subscription {subscription}; 0 to {(1 << 16) - 1} expected")
    return subscription
