"""The parts of a node that a term as leader uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from node.handover.attempt_limit import AttemptLimit
from node.handover.counters import Counters
from node.handover.delivery_log import DeliveryLog
from node.handover.term import Leadership, Leads
from node.handover.topic_metrics import TopicMetrics
from node.leader.dispatcher import Dispatcher, DispatchOptions
from node.leader.operations_in_hand import OperationsInHand
from node.push.feed import PushFeed
from node.ready.rule import Rule
from node.runtime.clock import NodeClock
from node.runtime.config import Dispatch
from node.runtime.entropy import Entropy
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.group import RaftGroup
from storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderParts:
    """The parts that each term as leader uses. They are made once, and are the same for all terms of a node."""

    node_id: str
    options: Dispatch
    store: Store
    machine: Machine
    group: RaftGroup
    clock: NodeClock
    entropy: Entropy
    life: Lifecycle
    proposer: Proposer
    leadership: Leadership
    delivery_log: DeliveryLog
    counters: Counters
    topic_metrics: TopicMetrics
    push_feed: PushFeed
    reserve: Reserve
    count_topics: Callable[[Leads], Awaitable[None]]
    in_hand: OperationsInHand = field(default_factory=OperationsInHand)

    def dispatcher(self, term: int, attempts: AttemptLimit, rules: Sequence[Rule]) -> Dispatcher:
        """Make the dispatcher of the term with this number."""
        options = self.options
        return Dispatcher(
            self.store,
            term=term,
            options=DispatchOptions(
                stop_ms=options.stop_ms,
                beat_ms=options.beat_ms,
                state_ms=options.state_ms,
                window_per_topic=options.window_per_topic,
                window_total=options.window_total,
                inline_reads=False,
            ),
            attempts=attempts,
            rules=rules,
        )
