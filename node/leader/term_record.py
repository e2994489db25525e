"""Writes into the delivery log that a term of this node began, and how it ended.

From level 3 on the beginning also has the number of this boot of the computer and the term before. Then a reader of all
nodes' logs sees which logs may have lost their ends, and which terms no log has (ledger/unrecorded.py).
"""

from __future__ import annotations

from collections.abc import Callable

from node.handover.delivery_log import HANDED_ON, LOST, STOPPED, DeliveryLog, Mark
from node.runtime.clock import NodeClock
from node.runtime.lifecycle import Lifecycle
from storage.file.disk import DiskFailed
from storage.format.level import has
from storage.store import Store


class TermRecord:
    """Writes the records in the delivery log of one term, for which this node was elected. Make it before the cluster
    may be founded in that term."""

    def __init__(
        self,
        term: int,
        term_before: int,
        store: Store,
        clock: NodeClock,
        life: Lifecycle,
        delivery_log: DeliveryLog,
        boot: int,
        *,
        giving: Callable[[], bool],
    ) -> None:
        """`boot` is the number of this boot of the computer. `giving` returns True if this node gives its leadership
        away."""
        self._term = term
        self._store, self._clock, self._life, self._delivery_log = store, clock, life, delivery_log
        self._giving = giving
        self.founds = store.cluster_id is None
        """True if the cluster is founded in this term. No node handed anything over before."""
        restored = store.catalog.restored
        before = 0 if self.founds else term_before
        if restored is not None and before <= restored.term:  # the backup's cluster had that term
            before = 0
        self._mark = Mark(boot, before)
        self._marked = False

    def begin(self, at_ms: int) -> None:
        """Write that the term began. Call it before the first hand-over. Raises DiskFailed."""
        self._marked = self._may_mark()
        self._delivery_log.term_begun(self._term, at_ms, self._mark if self._marked else None)

    def level_rose(self) -> None:
        """Write again that the term began, now with the mark, if the first record has none and the level now allows it.
        Raises DiskFailed."""
        if not self._marked and self._may_mark():
            self.begin(self._clock.now_ms())

    def pass_by(self) -> None:
        """Write the end of a term that this node lost before it could hand anything over. The mark in it names the term
        before. Otherwise nothing would show that earlier term if its own log is lost."""
        if not self._life.failed and self._store.cluster_id is not None and self._may_mark():
            self._end(LOST, self._mark)

    def end(self) -> None:
        """Write that the term ended and how, after its last hand-over."""
        self._end(HANDED_ON if self._giving() else STOPPED if self._life.draining else LOST)

    def _end(self, how: int, mark: Mark | None = None) -> None:
        try:
            self._delivery_log.term_ended(self._term, self._clock.now_ms(), how, mark)
        except DiskFailed as error:
            self._life.fatal(error)

    def _may_mark(self) -> bool:
        return has(self._store.level, "term-mark")
