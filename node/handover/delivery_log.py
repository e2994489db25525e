"""The delivery log: this node's own record of its hand-overs. It writes a start before the first byte leaves, and an
end when the outcome is known.

The replicated settle records say which leases and outcomes were committed. This log says what this node did, even in
the last moments before a crash, whose commands may never be committed. It also says in which terms this node led, from
when to when, and how each term ended. The reconciliation reads both. storage/record/delivery_record.py has the format.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replication.command.dispatch import DispatchState
from storage.file.delivery_file import DeliveryFile, DeliveryWriter
from storage.file.disk import Disk
from storage.format.array import I64, U16, U32, U64
from storage.record.delivery_record import (
    DELIVERED,
    DELIVERY,
    END,
    FAILED,
    GIVEN_BACK,
    HANDED_ON,
    LATE,
    LOST,
    PULL,
    PUSH,
    START,
    STOPPED,
    TERM_BEGUN,
    TERM_ENDED,
    Deliveries,
)

__all__ = [
    "DELIVERED",
    "FAILED",
    "GIVEN_BACK",
    "HANDED_ON",
    "LATE",
    "LOST",
    "PULL",
    "PUSH",
    "STOPPED",
    "DeliveryLog",
    "Mark",
]


class Mark(NamedTuple):
    """The fields `boot` and `before`, which the first record of a term has from level 3 on. The first record is that of
    the term's beginning, or of its end if no beginning was written."""

    boot: int
    """A number for this run of the computer, drawn anew at each boot of its kernel (node/runtime/boot.py)."""
    before: int
    """The term of the newest Raft entry before this term, 0 if there is none."""


class DeliveryLog:
    """Appends to the delivery log of one node and group. A write that fails raises DiskFailed, and the log must not be
    used after that.

    `cluster_id` is called at the first record, because there is no id before the cluster is founded. `state` returns
    the present dispatch state, which goes into each record.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        *,
        group: int,
        node: int,
        cluster_id: Callable[[], bytes | None],
        state: Callable[[], DispatchState],
    ) -> None:
        self._directory = directory
        self._disk = disk
        self.group = group
        self.node = node
        self._cluster_id = cluster_id
        self._state = state
        self._writer: DeliveryWriter | None = None

    def start(
        self,
        *,
        home: U64,
        random: U64,
        attempt: U16,
        asked_due_ms: I64,
        topic: U32 | int,
        term: int,
        at_ms: int,
        mode: int,
        subscription: int = 0,
    ) -> None:
        """Write that n hand-overs are about to leave. Arrays have shape [n], and a single value stands for every row.
        The rows have been written to the file, without a sync, when this returns."""
        rows = self._rows(home, random, attempt, at_ms, START, mode, topic, subscription)
        rows["asked_due_ms"] = asked_due_ms
        rows["term"] = term
        self._append(rows, at_ms)

    def end(
        self,
        *,
        home: U64,
        random: U64,
        attempt: U16,
        term: U32 | int,
        topic: U32 | int,
        at_ms: int,
        mode: int,
        outcome: int,
        code: U16 | int = 0,
        took_ms: U32 | int = 0,
        subscription: int = 0,
    ) -> None:
        """Write the outcome of n hand-overs. Arrays have shape [n], and a single value stands for every row. `took_ms`
        is 0 if it is not known how long the hand-over took."""
        rows = self._rows(home, random, attempt, at_ms, END, mode, topic, subscription)
        rows["term"] = term
        rows["outcome"] = outcome
        rows["code"] = code
        rows["took_ms"] = took_ms
        self._append(rows, at_ms)

    def term_begun(self, term: int, at_ms: int, mark: Mark | None = None) -> None:
        """Write that this node leads this term, with the dispatch state that it found. The record comes before the
        first hand-over of the term and begins a new file. If the cluster's level allows the mark only later in the
        term, call this again with the mark. The log then goes on in another new file, which begins with a record that
        has the mark."""
        begun = self._term(term, at_ms, TERM_BEGUN, mark)
        if not self._open().mark(begun, at_ms):
            self.close()
            self._append(begun, at_ms)

    def term_ended(self, term: int, at_ms: int, how: int, mark: Mark | None = None) -> None:
        """Write that this node leads no more. The record comes after the last hand-over of the term and is the last of
        its file. `how` is HANDED_ON, LOST or STOPPED. `mark` is given if the term's beginning was never written."""
        rows = self._term(term, at_ms, TERM_ENDED, mark)
        rows["code"] = how
        self._append(rows, at_ms)
        self.close()

    def written(self) -> tuple[DeliveryFile, int] | None:
        """The file to which records are appended now, and how many records it has. None if no file is open."""
        return self._writer.written() if self._writer is not None else None

    def remove_before(
        self, before_ms: int, *, now_ms: int, may_go: Callable[[DeliveryFile], bool] = lambda file: True
    ) -> int:
        """Remove each file all of whose records are older than `before_ms` and for which `may_go` returns True. Return
        how many were removed."""
        if self._cluster_id() is None:
            return 0
        return self._open().remove_before(before_ms, now_ms=now_ms, may_go=may_go)

    def close(self) -> None:
        """Close the file. The next record begins another one."""
        if self._writer is not None:
            self._writer.close()

    def _term(self, term: int, at_ms: int, kind: int, mark: Mark | None) -> Deliveries:
        none = np.zeros(1, np.uint64)
        rows = self._rows(none, none, np.zeros(1, np.uint16), at_ms, kind, mode=0, topic=0, subscription=0)
        rows["term"] = term
        if mark is not None:
            rows["random"], rows["took_ms"] = mark.boot, mark.before
        return rows

    def _rows(
        self,
        home: U64,
        random: U64,
        attempt: U16,
        at_ms: int,
        kind: int,
        mode: int,
        topic: U32 | int,
        subscription: int,
    ) -> Deliveries:
        rows: npt.NDArray[np.void] = np.zeros(len(home), DELIVERY)
        state = self._state()
        rows["home"] = home
        rows["random"] = random
        rows["attempt"] = attempt
        rows["at_ms"] = at_ms
        rows["tick"] = state.tick
        rows["local_index"] = state.local_index
        rows["topic"] = topic
        rows["subscription"] = subscription
        rows["node"] = self.node
        rows["group"] = self.group
        rows["kind"] = kind
        rows["mode"] = mode
        return rows

    def _append(self, rows: Deliveries, at_ms: int) -> None:
        if len(rows):
            self._open().append(rows, at_ms)

    def _open(self) -> DeliveryWriter:
        if self._writer is None:
            cluster_id = self._cluster_id()
            assert cluster_id is not None, "a hand-over before the cluster was founded"
            self._writer = DeliveryWriter(self._directory, self._disk, group=self.group, cluster_id=cluster_id)
        return self._writer
