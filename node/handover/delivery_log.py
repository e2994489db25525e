"""A node's own account of its hand-overs: a start before the first byte leaves, an end when the outcome is known.

The replicated records say what was promised. This log says what this node did, even in the moments that a crash takes
from the replicated ones. It also says in which terms this node led, from when to when, and how that ended. The
reconciliation reads both. storage/record/delivery_record.py has the format.
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
    """The additions of a term's first record, from level 3 on. That is the record of its beginning, or of its end if it
    never began."""

    boot: int
    """The run of the machine's kernel (node/runtime/boot.py)."""
    before: int
    """The term that the log shows before this one, 0 before the first."""


class DeliveryLog:
    """Appends to the files of one node and group. A failed write is final, like any: DiskFailed.

    `cluster_id` is called at the first record, because there is no id before the cluster is founded. `state` gives the
    dispatch state of the moment.
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
        """Write that hand-overs are about to leave, as columns of n rows. The kernel has the rows when this returns."""
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
        """Write the outcome of hand-overs, as columns of n rows. A single value stands for every row. `took_ms` 0: not
        known."""
        rows = self._rows(home, random, attempt, at_ms, END, mode, topic, subscription)
        rows["term"] = term
        rows["outcome"] = outcome
        rows["code"] = code
        rows["took_ms"] = took_ms
        self._append(rows, at_ms)

    def term_begun(self, term: int, at_ms: int, mark: Mark | None = None) -> None:
        """Write that this node leads this term, with the dispatch state that it found. The record comes before the
        first hand-over and is the first of a file. A mark that may be made later in the term is written by a second
        call. Then the log goes on in a new file."""
        begun = self._term(term, at_ms, TERM_BEGUN, mark)
        if not self._open().mark(begun, at_ms):
            self.close()
            self._append(begun, at_ms)

    def term_ended(self, term: int, at_ms: int, how: int, mark: Mark | None = None) -> None:
        """Write that this node leads no more. The record comes after the last hand-over and is the last of a file.
        `how` is HANDED_ON, LOST or STOPPED. `mark`: of a term that has no beginning."""
        rows = self._term(term, at_ms, TERM_ENDED, mark)
        rows["code"] = how
        self._append(rows, at_ms)
        self.close()

    def written(self) -> tuple[DeliveryFile, int] | None:
        """The file that grows, and how many records it has. None if no file grows."""
        return self._writer.written() if self._writer is not None else None

    def remove_before(
        self, before_ms: int, *, now_ms: int, may_go: Callable[[DeliveryFile], bool] = lambda file: True
    ) -> int:
        """Remove files that only hold records from before `before_ms`, if they may go. Return how many."""
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
