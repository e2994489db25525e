"""The columnar batches that go into the store and come out of it.

A batch of 1,000 messages is a dozen arrays, never 1,000 objects. So apply needs no Python loop. All arrays of one batch
have the same length n, one row per message.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U16, U32, U64
from storage.format.states import UNKNOWN


@dataclass(frozen=True, slots=True)
class UnitBatch:
    """Units to append, in arrival order. No `due_ms` may lie in a slot that was dispatched before. Apply has raised
    such times before it makes the batch."""

    due_ms: I64
    size: U32  # bytes of each record in `records`, a multiple of 8
    topic: U32
    tags: U64  # bit-or of the tags' hashes
    kind: U8
    priority: U8
    attempt: U16
    flags: U32
    records: (
        bytes | bytearray | memoryview | U8
    )  # the records of storage.record.record.encode_records, one after the other in row order
    created_ms: int | I64
    homes: U64 | None = None  # positions where the messages were born; None: this append stores them first

    def __len__(self) -> int:
        return len(self.due_ms)


@dataclass(frozen=True, slots=True)
class SettleBatch:
    """Changes of units, one row each, in the order in which they become settle records. A unit may come more than once.
    Its last row decides its state."""

    position: U64
    what: U8  # storage.format.rows.LEASED .. FORWARDED
    at_ms: I64
    when: I64  # lease end ms for leased, position moved to for moved and forwarded, else 0
    term: U32
    attempt: U16
    node: U16
    code: U16
    subscription: U16

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def of(
        cls,
        position: npt.ArrayLike,
        *,
        what: npt.ArrayLike,
        at_ms: npt.ArrayLike,
        when: npt.ArrayLike = 0,
        term: npt.ArrayLike = 0,
        attempt: npt.ArrayLike = 0,
        node: npt.ArrayLike = 0,
        code: npt.ArrayLike = 0,
        subscription: npt.ArrayLike = 0,
    ) -> "SettleBatch":
        """A batch from columns or single values. A single value is the value of every row."""
        at = np.atleast_1d(np.asarray(position, np.uint64))

        def column(values: npt.ArrayLike, kind: Any) -> npt.NDArray[Any]:
            filled = np.empty(len(at), kind)  # a tenth of the cost of broadcast_to, and apply makes many such calls
            filled[:] = values
            return filled

        return cls(
            at,
            column(what, np.uint8),
            column(at_ms, np.int64),
            column(when, np.int64),
            column(term, np.uint32),
            column(attempt, np.uint16),
            column(node, np.uint16),
            column(code, np.uint16),
            column(subscription, np.uint16),
        )


@dataclass(frozen=True, slots=True)
class StateColumns:
    """States of units, in the order in which the caller named the units.

    `state` is PENDING, LEASED .. EXPIRED, FORWARDED, or UNKNOWN for a missing unit. A PENDING or LEASED unit is open.
    """

    state: U8
    attempt: U16  # of the newest settle record; 0 if there is none
    term: U32  # likewise
    lease_end_ms: I64  # 0 unless leased

    @classmethod
    def unknown(cls, count: int) -> "StateColumns":
        """`count` rows that are UNKNOWN."""
        numbers, terms, ends_ms = np.zeros(count, np.uint16), np.zeros(count, np.uint32), np.zeros(count, np.int64)
        return cls(np.full(count, UNKNOWN, np.uint8), numbers, terms, ends_ms)

    def __len__(self) -> int:
        return len(self.state)


class LeasedColumns(NamedTuple):
    """Leased units of one hour, in order of global_index."""

    position: U64
    lease_end_ms: I64
    term: U32
    attempt: U16
