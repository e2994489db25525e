"""A group as a front of its node sees it. GroupPort is all that a front may ask of it; GroupStatus what it is told.

Calls that a group does not answer any more (it failed, or is being opened again) raise `no-leader` or
`outcome-unknown`, by whether something may have happened.
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
    """What receipts are made and checked with. `whole`: every member reads the form that names group and namespace."""

    secret: bytes
    whole: bool


class PeerNode(Plain, frozen=True):
    """Another member: where its Raft listens, and whether it is known to read the calls of this build."""

    node: str
    raft: str
    calls: bool = False


class GroupStatus(Plain, frozen=True, kw_only=True):
    """One group on one node. `term`: the newest that it knows of. `leads`: this node proposes now; it does not while it
    gives leadership away. `leader_http`: where requests for the leader go, None while they wait for one. `ahead_s`: the
    node clock less the monotonic one. `receipts` and `cluster`, its id, are None before the cluster is founded.
    `peers`: the other members."""

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
    """A node of the cluster; None: whichever fits, or the one that is asked."""

    node: str | None = None


class MemberAsked(Plain, frozen=True):
    """A node to be, or that is, a member, with its addresses."""

    node: str
    raft: str = ""
    http: str = ""


class LevelAsked(Plain, frozen=True):
    """A level of the cluster; None: the newest that this node reads."""

    level: Count | None = None


class Level(Plain, frozen=True):
    """The level that the cluster has."""

    level: Count


class BackupAsked(Plain, frozen=True):
    """Where a backup goes, below what is configured; None: there itself."""

    directory: str | None = None


class OutcomesTold(Plain, frozen=True):
    """What became of pushes of a former leader."""

    outcomes: tuple[PushOutcome, ...]


class OutcomesTaken(Plain, frozen=True):
    """A word for each: acked, nacked, stale or invalid."""

    results: tuple[str, ...]


class ClusterDocument(Plain, frozen=True):
    """The members of the document of GET /v1/cluster."""

    members: dict[str, Any]


class Sample(Plain, frozen=True):
    """One value of a metric. `labels` in the order of their names."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(Plain, frozen=True):
    """One metric: its name, its kind, a sentence, its values."""

    name: str
    kind: str
    sentence: str
    samples: tuple[Sample, ...]


class MetricFamilies(Plain, frozen=True):
    """All of a group."""

    families: tuple[MetricFamily, ...]


class ClusterPort(Protocol):
    """Who leads, who the members are, and what a node says of itself."""

    async def transfer(self, asked: NodeNamed) -> TransferResult:
        """Move leadership. `unknown-node`, `not-caught-up`, `change-in-progress`, `no-leader`."""

    async def drain(self, asked: NodeNamed) -> DrainView:
        """This node leads nothing from here on. `unknown-node`, `not-caught-up`, `change-in-progress`."""

    async def undrain(self, asked: NodeNamed) -> DrainView:
        """It serves again. `unknown-node`."""

    async def add_member(self, asked: MemberAsked) -> MemberView:
        """See api.port.member.MemberPort."""

    async def remove_member(self, asked: NodeNamed) -> MemberView:
        """See api.port.member.MemberPort."""

    async def upgrade(self, asked: LevelAsked) -> Level:
        """See api.port.member.MemberPort."""

    async def snapshot(self, asked: BackupAsked) -> SnapshotView:
        """See api.port.backup.SnapshotPort."""

    async def outcomes(self, told: OutcomesTold) -> OutcomesTaken:
        """Durable on a majority when it returns. `no-leader`."""

    async def takeover(self, told: OpenHandOvers) -> TakeoverView:
        """A new leader's account. `no-leader`."""

    async def records(self, asked: RecordsAsked) -> RecordsFound:
        """From this node's own delivery log, whether it leads or not. `over-limit`."""

    async def cluster(self) -> ClusterDocument:
        """As this node sees it."""

    async def ready(self) -> Readiness:
        """Whether this node serves."""

    async def metrics(self) -> MetricFamilies:
        """As they are now."""


class GroupPort(MessagePort, TopicPort, PullPort, ClusterPort, Protocol):
    """One group."""

    number: int

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """Tell this of the group from now on: at once, and at each change; some are found by a look twice a second."""
