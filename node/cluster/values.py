"""The values of a node's metrics at the moment at which they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from node.handover.counters import Counters
from node.handover.term import Leadership
from node.runtime.clock import NodeClock
from node.runtime.free_space import Reserve
from node.upkeep.checkpointer import Checkpointer
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.group import RaftGroup
from replication.journal.journal import Journal
from storage.tables.registry import IDEMPOTENCY, OPERATIONS


class Values:
    """Reads the values of metrics from the parts of a group, and changes nothing."""

    def __init__(
        self,
        leadership: Leadership,
        proposer: Proposer,
        counters: Counters,
        group: RaftGroup,
        machine: Machine,
        journal: Journal,
        checkpointer: Checkpointer,
        reserve: Reserve,
        clock: NodeClock,
        others: Sequence[Callable[[], Mapping[str, float]]],
    ) -> None:
        """`others` are functions of other parts. Each returns further rows, by name of the metric."""
        self._leadership, self._proposer, self._counters = leadership, proposer, counters
        self._group, self._machine, self._store, self._journal = group, machine, machine.store, journal
        self._checkpointer, self._reserve, self._clock, self._others = checkpointer, reserve, clock, others

    def rows(self) -> dict[str, float]:
        """Return the values of node.cluster.metrics.TABLE, by name."""
        term, held = self._leadership.term, self._store.hours_held
        windows, operations = None if term is None else term.handing_over, self._store.catalog.of(OPERATIONS).running
        answers = self._store.catalog.of(IDEMPOTENCY)
        oldest_ms = answers.oldest_ms()
        return {
            "hourwheel_scheduled": self._proposer.rows,
            "hourwheel_handed_over": self._counters.handed_over,
            "hourwheel_acked": self._counters.acked,
            "hourwheel_entries": self._proposer.entries,
            "hourwheel_leads": float(term is not None),
            "hourwheel_untrusted_seconds": self._group.untrusted_s,
            "hourwheel_silence_seconds": self._group.silence.promise_s,
            "hourwheel_term": self._group.term,
            "hourwheel_commit_index": self._group.commit_index,
            "hourwheel_applied_index": self._machine.applied_index,
            "hourwheel_waiting": self._proposer.waiting_rows,
            "hourwheel_topics": self._store.catalog.topic_count,
            "hourwheel_operations_running": len(operations),
            "hourwheel_operations_paused": sum(not each.operation.works for each in operations),
            "hourwheel_idempotency_oldest_seconds": math.nan if oldest_ms is None else oldest_ms / 1000,
            "hourwheel_idempotency_bytes": answers.bytes,
            "hourwheel_ready": 0 if windows is None else windows.ready_count,
            "hourwheel_pledged": 0 if windows is None else windows.strict.waiting,
            "hourwheel_released": self._counters.released,
            "hourwheel_near_hours": held.near,
            "hourwheel_used_hours": held.used,
            "hourwheel_heads_bytes": held.heads_bytes,
            "hourwheel_staged_bytes": self._store.staged_bytes,
            "hourwheel_free_bytes": self._reserve.free_bytes,
            **self._kept(),
            "hourwheel_clock_error_seconds": self._clock.error_ms() / 1000,
            "hourwheel_tick_seconds": self._machine.tick,
            "hourwheel_checkpoint_index": self._checkpointer.index,
            "hourwheel_journal_bytes": self._journal.kept_bytes,
            **{name: value for values in self._others for name, value in values().items()},
        }

    def _kept(self) -> dict[str, float]:
        """Return two values about the last checkpoint. One is its oldest hour. The other is the size of hours that are
        past their retention and are kept because a message in them is still open."""
        kept, genesis = self._checkpointer.kept, self._store.catalog.genesis
        retention_ms = max(genesis.retention_ms, genesis.key_retention_ms) if genesis is not None else 0
        return {
            "hourwheel_oldest_hour_seconds": kept.oldest * 3600 if kept.oldest is not None else math.nan,
            "hourwheel_kept_for_open_bytes": kept.open_bytes(self._clock.now_ms() - retention_ms),
        }
