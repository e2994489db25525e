"""Begins and ends this node's terms as leader.

- When the no-op of its own term is applied, the node is established. It founds the cluster if no node did, then begins
  a LeaderTerm.
- When leadership is lost, the node has stepped down. The term ends in the same step of the loop, and nothing of it goes
  on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from api.port.problem import Problem
from node.cluster.clock_skew import Skew
from node.cluster.drain import Drain
from node.cluster.founding import genesis_of
from node.cluster.transfer import Transfer
from node.handover.term import Leadership
from node.leader.leader_parts import LeaderParts
from node.leader.leader_term import LeaderTerm
from node.leader.promotion import Promoted, latest_due_ms
from node.leader.restored_overdue import restored_overdue
from node.leader.service import RuleFactory, ServiceFactory
from node.leader.term_record import TermRecord
from node.operation.work import operation_work
from node.ready.operation_rule import OperationRule
from node.runtime.config import Config

log = structlog.get_logger()

#: The rules that a leader asks right before a hand-over, and the services that it drives, in this order.
RULES: Final[list[RuleFactory]] = [lambda parts: OperationRule(parts.store, parts.in_hand.proposed)]
SERVICES: Final[list[ServiceFactory]] = [restored_overdue, operation_work]


class Leading:
    """Makes a LeaderTerm for each term that this node leads. The Raft group calls it when this node becomes leader, or
    leads no more."""

    def __init__(
        self,
        parts: LeaderParts,
        leadership: Leadership[LeaderTerm],
        config: Config,
        boot: int,
        skew: Skew,
        transfer: Transfer,
        drain: Drain,
        status_changed: Callable[[], None],
    ) -> None:
        self._parts, self._config, self._boot, self._skew = parts, config, boot, skew
        self._transfer, self._drain, self._status_changed = transfer, drain, status_changed
        self._group, self._clock, self._store = parts.group, parts.clock, parts.store
        self._leadership = leadership
        self.in_hand = parts.in_hand
        self._told = 0  # the newest term that this node led, or won and lost before it could lead

    def established(self) -> None:
        """Found the cluster if no node did, then begin a term. Called when the no-op of this node's own term is
        applied."""
        self._clock.leading = True
        self._clock.bound(self._skew.least_median_ms())  # before the first stamp: the no-op's voters echoed too
        self._parts.life.spawn(self._begin(self._group.term))

    def stepped_down(self) -> None:
        """End the term, because leadership is lost."""
        self._clock.leading = False
        term, self._leadership.term = self._leadership.term, None
        if term is not None:
            term.end()
            log.info("stepped down", node=self._config.node_id, term=self._group.term)
        if self._group.elected_term > self._told:
            self._told = self._group.elected_term
            self._record(self._told).pass_by()
        self._parts.proposer.step_down()

    def renewed(self) -> None:
        """Set the trust window, which other parts read, to the new end of this node's right to act as leader."""
        self._leadership.renew(self._group.trusted_until, self._clock.ahead_s())

    def trusted(self) -> None:
        """Tell the term that this node has trust again, because its peers echo."""
        if self._leadership.term is not None:
            self._leadership.term.trust_returned()

    def leader_changed(self) -> None:
        """Note that the leader that this node knows has changed: it is another node, or none."""
        if self._group.is_leader:
            self._skew.led_since_s = self._clock.monotonic()  # in the step that sends the term's first heartbeats
        self._status_changed()
        self._transfer.leader_changed()

    async def _begin(self, term: int) -> None:
        parts, store = self._parts, self._store
        record = self._record(term)
        if self._drain.gone:
            self._group.resign()  # elected at the last moment: another node shall lead
            return
        self._leadership.frozen = parts.life.draining  # elected while it leaves: a caretaker (node/cluster/drain.py)
        await self._transfer.yield_if_outvoted()
        if store.cluster_id is None:
            genesis = genesis_of(self._config, parts.entropy)
            while store.cluster_id is None and self._leads(term):
                with contextlib.suppress(Problem):  # the outcome is unknown, and a second Genesis changes nothing
                    await parts.proposer.propose_single(genesis)
        if self._leads(term) and self._told < term:
            self._told = term
            promoted = self._promoted(term, record)
            self._leadership.term = leader_term = LeaderTerm(parts, term, record, promoted, RULES, SERVICES)
            leader_term.begin()
            log.info("leading", node=self._config.node_id, term=term)

    def _record(self, term: int) -> TermRecord:
        parts = self._parts
        return TermRecord(
            term,
            self._group.term_before,
            self._store,
            self._clock,
            parts.life,
            parts.delivery_log,
            self._boot,
            giving=lambda: self._transfer.giving,
        )

    def _promoted(self, term: int, record: TermRecord) -> Promoted:
        latest_ms = latest_due_ms(self._clock, self._parts.machine, self._skew.some_right_ms())
        proposer, given = self._parts.proposer, self._group.given
        return Promoted(term, self._store, proposer, latest_ms, founds=record.founds, given=given)

    def _leads(self, term: int) -> bool:
        return self._group.established and self._group.term == term
