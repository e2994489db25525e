"""A group as a front of its node sees it. GroupPort is all that a front may ask, GroupStatus all that it hears.

A group that failed, or is being opened again, does not answer calls any more. They raise `no-leader` if nothing
happened, and `outcome-unknown` if something may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from api.port.backup import SnapshotView
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import RecordsAsked, RecordsFound
from api.port.member import MemberView
from api.port.port import Readiness, TransferResult
from node.port.message_port import MessagePort
from node.port.plain import U16, U32, Count, Plain
from node.port.pull_port import PullPort
from node.port.topic_port import TopicPort


class ReceiptKey(Plain, frozen=True):
    """The key that makes and checks receipts. `whole`: every member reads the form that names group and namespace."""

    secret: bytes
    whole: bool


class PeerNode(Plain, frozen=True):
    """Another member: where its Raft listens. `calls` is true if it is known to read the calls of this build."""

    node: str
    raft: str
    calls: bool = False


class GroupStatus(Plain, frozen=True, kw_only=True):
    """The state of a group on one node.

    - `term`: the newest that it knows of.
    - `leads`: this node proposes now. It does not while it gives leadership away.
    - `leader_http`: where requests for the leader go, None while they wait for one.
    - `ahead_s`: the node clock less the monotonic one.
    - `receipts` and `cluster`, its id, are None before the cluster is founded.
    - `peers`: the other members.
    """

    group: U16
    node: str
    term: U32 = 0
    leader: str | None = None
    leader_http: str | None = None
    leads: bool = False
    drained: bool = False
    ahead_s: float = 0.0
    receipts: ReceiptKey | None = None
    cluster: bytes | None = None
    peers: tuple[PeerNode, ...] = ()


class NodeNamed(Plain, frozen=True):
    """A node of the cluster. None: any that fits, or the one that is asked."""

    node: str | None = None


class MemberAsked(Plain, frozen=True):
    """A member, or a node that is to be one, with its addresses."""

    node: str
    raft: str = ""
    http: str = ""


class LevelAsked(Plain, frozen=True):
    """A level of the cluster. None: the newest that this node reads."""

    level: Count | None = None


class Level(Plain, frozen=True):
    """The level of the cluster."""

    level: Count


class BackupAsked(Plain, frozen=True):
    """The directory of a backup, below the configured one. None: the configured one."""

    directory: str | None = None


class OutcomesSent(Plain, frozen=True):
    """The outcomes of pushes of a former leader."""

    outcomes: tuple[PushOutcome, ...]


class OutcomesTaken(Plain, frozen=True):
    """A word for each outcome: acked, nacked, stale or invalid."""

    results: tuple[str, ...]


class ClusterDocument(Plain, frozen=True):
    """The members of the document of GET /v1/cluster."""

    members: dict[str, Any]


class Sample(Plain, frozen=True):
    """A value of a metric. `labels` in the order of their names."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(Plain, frozen=True):
    """A metric: its name, its kind, a sentence, its values."""

    name: str
    kind: str
    sentence: str
    samples: tuple[Sample, ...]


class MetricFamilies(Plain, frozen=True):
    """All metrics of a group."""

    families: tuple[MetricFamily, ...]


class ClusterPort(Protocol):
    """The leader, the members, and the state of a node."""

    async def transfer(self, asked: NodeNamed) -> TransferResult:
        """Move leadership. Raises `unknown-node`, `not-caught-up`, `change-in-progress`, `no-leader`."""

    async def drain(self, asked: NodeNamed) -> DrainView:
        """Let this node lead nothing from here on. Raises `unknown-node`, `not-caught-up`, `change-in-progress`."""

    async def undrain(self, asked: NodeNamed) -> DrainView:
        """Let this node serve again. Raises `unknown-node`."""

    async def add_member(self, asked: MemberAsked) -> MemberView:
        """See api.port.member.MemberPort."""

    async def remove_member(self, asked: NodeNamed) -> MemberView:
        """See api.port.member.MemberPort."""

    async def upgrade(self, asked: LevelAsked) -> Level:
        """See api.port.member.MemberPort."""

    async def snapshot(self, asked: BackupAsked) -> SnapshotView:
        """See api.port.backup.SnapshotPort."""

    async def outcomes(self, told: OutcomesSent) -> OutcomesTaken:
        """Take outcomes. They are durable on a majority when it returns. Raises `no-leader`."""

    async def takeover(self, told: OpenHandOvers) -> TakeoverView:
        """Return a new leader's account. Raises `no-leader`."""

    async def records(self, asked: RecordsAsked) -> RecordsFound:
        """Return records of this node's own delivery log, also if it does not lead. Raises `over-limit`."""

    async def cluster(self) -> ClusterDocument:
        """Return the document as this node sees it."""

    async def ready(self) -> Readiness:
        """Say if this node serves."""

    async def metrics(self) -> MetricFamilies:
        """Return the metrics as they are now."""


class GroupPort(MessagePort, TopicPort, PullPort, ClusterPort, Protocol):
    """All calls of a group."""

    number: int

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """Call `told` with the status from now on: at once, and at each change. Some changes are found by a look twice
        a second."""
