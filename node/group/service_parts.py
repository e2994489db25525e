"""The parts of a group that its service (group_service.py) passes calls on to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from node.cluster.drain import Drain
from node.cluster.levels import Levels
from node.cluster.member_changes import MemberChanges
from node.cluster.members import Members
from node.cluster.metrics import Metrics
from node.cluster.status import Status
from node.cluster.transfer import Transfer
from node.handover.counters import Counters
from node.handover.delivery_log import DeliveryLog
from node.handover.term import Leadership
from node.handover.topic_metrics import TopicMetrics
from node.leader.operations_in_hand import OperationsInHand
from node.message.count import Counting
from node.port.peer_port import PeerPort
from node.runtime.clock import NodeClock
from node.runtime.config import Config
from node.runtime.entropy import Entropy
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.upkeep.backup import Backups
from node.write.proposer import Proposer
from replication.driver import GroupDriver
from replication.group import RaftGroup
from storage.file.disk import Disk
from storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """The parts of one group. Each request to the group goes to one of them."""

    config: Config
    deliveries: Path
    disk: Disk
    store: Store
    clock: NodeClock
    entropy: Entropy
    life: Lifecycle
    group: RaftGroup
    driver: GroupDriver
    proposer: Proposer
    leadership: Leadership
    peers: PeerPort
    delivery_log: DeliveryLog
    counters: Counters
    topic_metrics: TopicMetrics
    reserve: Reserve
    counting: Counting
    tick: Callable[[], int]
    """The second, since 1970, that is being dispatched."""
    members: Members
    member_changes: MemberChanges
    levels: Levels
    transfer: Transfer
    drain: Drain
    backups: Backups
    in_hand: OperationsInHand
    status: Status
    metrics: Metrics
