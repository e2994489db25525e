"""What this node's delivery log says of a term that it was elected for: that it began, and how it ended.

From level 3 on the beginning is marked with the run of the machine's kernel and with the term before. Then whoever
reads the logs of all nodes sees which ends of logs may be lost, and which terms no log tells of (ledger/unrecorded.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.handover.delivery_log import HANDED_ON, LOST, STOPPED, Mark
from storage.catalog.level import has
from storage.file.delivery_end import end_killed_term
from storage.file.disk import DiskFailed

if TYPE_CHECKING:
    from node.server import Node


class TermRecord:
    """Of the term that the group was elected for last; made before a cluster is founded in it."""

    def __init__(self, node: Node, term: int) -> None:
        self._node = node
        self._term = term
        self.founds = node.store.cluster_id is None
        """The cluster is founded in it: nobody before handed anything over."""
        restored = node.store.catalog.restored
        before = 0 if self.founds else node.group.term_before
        if restored is not None and before <= restored.term:  # a term of the cluster that the backup was made of
            before = 0
        self._mark = Mark(node.boot, before)
        self._marked = False

    def begin(self, at_ms: int) -> None:
        """Before the first hand-over. Raises DiskFailed."""
        self._marked = self._may_mark()
        self._node.delivery_log.term_begun(self._term, at_ms, self._mark if self._marked else None)

    def level_rose(self) -> None:
        """Say it once more, with the mark, from the level on that has one. Raises DiskFailed."""
        if not self._marked and self._may_mark():
            self.begin(self._node.clock.now_ms())

    def pass_by(self) -> None:
        """This node was elected, and lost the term before anything could be handed over in it. The record of its end
        says so, with the mark: else no account told of the term before it, if that one's was lost."""
        if not self._node.life.failed and self._node.store.cluster_id is not None and self._may_mark():
            self._end(LOST, self._mark)

    def end(self) -> None:
        """After the last hand-over."""
        node = self._node
        self._end(HANDED_ON if node.transfer.giving else STOPPED if node.life.draining else LOST)

    def _end(self, how: int, mark: Mark | None = None) -> None:
        node = self._node
        try:
            node.delivery_log.term_ended(self._term, node.clock.now_ms(), how, mark)
        except DiskFailed as error:
            node.life.fatal(error)

    def _may_mark(self) -> bool:
        return has(self._node.store.level, "term-mark")


def end_killed(node: Node) -> None:
    """At the start: write the end of a term in which this node's process was killed. Raises DiskFailed."""
    end_killed_term(node.directory.deliveries, node.disk, node.boot)
