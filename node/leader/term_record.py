"""What this node's delivery log says of a term that it was elected for: that it began, and how it ended.

From level 3 on the beginning is marked with the run of the machine's kernel and with the term before. Then whoever
reads the logs of all nodes sees which ends of logs may be lost, and which terms no log tells of (ledger/unrecorded.py).
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
    """Of the term that the group was elected for last; made before a cluster is founded in it."""

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
        """`boot`: the run of the machine's kernel. `giving`: whether this node gives its leadership away."""
        self._term = term
        self._store, self._clock, self._life, self._delivery_log = store, clock, life, delivery_log
        self._giving = giving
        self.founds = store.cluster_id is None
        """The cluster is founded in it: nobody before handed anything over."""
        restored = store.catalog.restored
        before = 0 if self.founds else term_before
        if restored is not None and before <= restored.term:  # a term of the cluster that the backup was made of
            before = 0
        self._mark = Mark(boot, before)
        self._marked = False

    def begin(self, at_ms: int) -> None:
        """Before the first hand-over. Raises DiskFailed."""
        self._marked = self._may_mark()
        self._delivery_log.term_begun(self._term, at_ms, self._mark if self._marked else None)

    def level_rose(self) -> None:
        """Say it once more, with the mark, from the level on that has one. Raises DiskFailed."""
        if not self._marked and self._may_mark():
            self.begin(self._clock.now_ms())

    def pass_by(self) -> None:
        """This node was elected, and lost the term before anything could be handed over in it. The record of its end
        says so, with the mark: else no account told of the term before it, if that one's was lost."""
        if not self._life.failed and self._store.cluster_id is not None and self._may_mark():
            self._end(LOST, self._mark)

    def end(self) -> None:
        """After the last hand-over."""
        self._end(HANDED_ON if self._giving() else STOPPED if self._life.draining else LOST)

    def _end(self, how: int, mark: Mark | None = None) -> None:
        try:
            self._delivery_log.term_ended(self._term, self._clock.now_ms(), how, mark)
        except DiskFailed as error:
            self._life.fatal(error)

    def _may_mark(self) -> bool:
        return has(self._store.level, "term-mark")
