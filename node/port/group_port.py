"""A group as a front of its node sees it. GroupPort has all calls that a front may make. GroupStatus has all that a
front hears without asking.

A group that failed, or is being opened again, does not answer calls any more. They raise `no-leader` if nothing
happened, and `outcome-unknown` if something may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

from msgspec import Meta

from api.port.backup import SnapshotView
from api.port.forward import REQUEST_KEY_MAX
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView, TransferResult
from api.port.ledger import RecordsAsked, RecordsFound
from api.port.member import MemberView
from api.port.port import Readiness
from node.port.message_port import MessagePort
from node.port.plain import U16, U32, Count, Plain
from node.port.pull_port import PullPort
from node.port.topic_port import TopicPort


class ReceiptKey(Plain, frozen=True):
    """The key that makes and checks receipts. `whole` is true if every member reads the longer form, with group and
    namespace."""

    secret: bytes
    whole: bool


class PeerNode(Plain, frozen=True):
    """Another member, and its Raft address (`raft`). `calls` is true if that node is known to read the calls of this
    build."""

    node: str
    raft: str
    calls: bool = False


class GroupStatus(Plain, frozen=True, kw_only=True):
    """The state of a group on one node.

    - `term`: the newest that it knows of.
    - `leads`: true if this node proposes now. It is false while the node gives leadership away.
    - `leader_http`: the HTTP address for requests to the leader. None while they wait for a leader.
    - `ahead_s`: the time of the node clock less that of the monotonic clock.
    - `receipts`, and `cluster` (the cluster's id), are None before the cluster is founded.
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
    """A node of the cluster. None: in a transfer the group chooses the node, in a drain or undrain it is the node that
    is asked."""

    node: str | None = None


class MemberAsked(Plain, frozen=True):
    """A member, or a node that is to become one, with its addresses."""

    node: str
    raft: str = ""
    http: str = ""


class LevelAsked(Plain, frozen=True):
    """A level of the cluster. None: the newest level that the asked node reads."""

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
    """A word for each outcome, in the order sent: acked, nacked, stale or invalid."""

    results: tuple[str, ...]


class ClusterDocument(Plain, frozen=True):
    """The document of GET /v1/cluster."""

    members: dict[str, Any]


class Sample(Plain, frozen=True):
    """One value of a metric. `labels` are sorted by name."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(Plain, frozen=True):
    """A metric: its name, its kind (such as counter), a sentence that explains it, and its values."""

    name: str
    kind: str
    sentence: str
    samples: tuple[Sample, ...]


class MetricFamilies(Plain, frozen=True):
    """All metrics of a group."""

    families: tuple[MetricFamily, ...]


class OnceAsked(Plain, frozen=True):
    """A call to be carried out one time only, under the `Idempotency-Key` of a request. `frame` is its argument.
    `fingerprint` stands for the request's content, and `principal` is its client."""

    name: str
    frame: bytes
    key: Annotated[bytes, Meta(min_length=1, max_length=REQUEST_KEY_MAX)]
    fingerprint: Annotated[bytes, Meta(min_length=16, max_length=16)]
    principal: str


class OnceDone(Plain, frozen=True):
    """The answer of such a call. `replayed`: it was carried out by an earlier request. `frame` is None if the call
    answers nothing."""

    frame: bytes | None
    replayed: bool


class ClusterPort(Protocol):
    """The leader, the members, and the state of a node."""

    async def transfer(self, asked: NodeNamed) -> TransferResult:
        """Move leadership. Raises `unknown-node`, `not-caught-up`, `change-in-progress`, `no-leader`."""

    async def drain(self, asked: NodeNamed) -> DrainView:
        """Make this node lead nothing from here on. Raises `unknown-node`, `not-caught-up`, `change-in-progress`."""

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
        """Settle the outcomes of a former leader's pushes. The results are durable on a majority when it returns.
        Raises `no-leader`."""

    async def takeover(self, told: OpenHandOvers) -> TakeoverView:
        """Return a new leader's account of its takeover. Raises `no-leader`."""

    async def records(self, asked: RecordsAsked) -> RecordsFound:
        """Return records of this node's own delivery log, also if it does not lead. Raises `over-limit`."""

    async def cluster(self) -> ClusterDocument:
        """Return the document of GET /v1/cluster, as this node sees the cluster."""

    async def ready(self) -> Readiness:
        """Return if this node serves, and what is missing if not."""

    async def metrics(self) -> MetricFamilies:
        """Return the metrics as they are now."""


class GroupPort(MessagePort, TopicPort, PullPort, ClusterPort, Protocol):
    """All calls of a group."""

    number: int

    async def once(self, asked: OnceAsked) -> OnceDone:
        """Carry out a call one time only. Raises what the call raises, and `key-reused` if its key belongs to another
        request."""

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """Call `told` with the status from now on: at once, and after each change. Some changes are noticed only by a
        check twice a second."""
