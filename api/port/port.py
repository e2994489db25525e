"""The service port: what the HTTP layer asks of the node, and every type that crosses it.

It keeps HTTP apart from consensus and storage, so that tests run the real server over a few dictionaries.
- What comes in is validated: type, size, spelling. What needs the machine's state (keys, leases, revisions) is not.
- What goes out are plain values: times are int64 milliseconds UTC (`*_ms`), bodies are bytes, ids and receipts are str.
- A refusal is a `Problem`. Anything else that escapes is answered 500 and logged with its traceback.
- Every method may be cancelled at any await: the client closed its connection, or the node drains. A cancelled `pull`
  has made no lease; a cancelled `schedule` may or may not have been proposed.
- Methods are called on the leader only, or where `reaches_leader()` (either was true in this step), except `forward`,
  `message(local=True)`, `cluster`, `ready` and `metrics`. Leadership lost later is for the port to notice:
  `Problem("no-leader")` when nothing was proposed, `Problem("outcome-unknown")` when it may have happened.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from api.port.backup import SnapshotPort
from api.port.budget import Budget
from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import LedgerPort
from api.port.member import MemberPort
from api.port.problem import Problem
from api.port.queries import BulkResult, CountQuery, DeadPage, DeadQuery, HistogramBucket

#: Most messages one pull may ask for, most receipts one ack may carry.
PULL_MAX: Final = 1_000
ACK_MAX: Final = 10_000
#: Sum of the stored sizes (bodies and all) one pull hands over, so that base64 and escaping keep the answer <= 16 MiB.
PULL_BYTES_MAX: Final = 7 * 1024 * 1024


class Principal(msgspec.Struct, frozen=True):
    """Who asks. Anonymous until there are tokens."""

    name: str


ANONYMOUS: Final = Principal("anonymous")

#: RocketMQ's 18 delay levels; level 1 is the first.
DELAY_LEVELS_MS: Final = tuple(1_000 * s for s in (1, 5, 10, 30, *range(60, 601, 60), 1_200, 1_800, 3_600, 7_200))


class Limits(msgspec.Struct, frozen=True):
    """What one request may carry. Raising a size costs memory per connection, not safety."""

    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS  # `delay_level: n` stands for the n-th, from 1
    push_allow: tuple[str, ...] | None = None  # networks that a push may go to beside public ones; None: any address
    max_delay_ms: int = 3650 * 86_400_000  # how far ahead a due time may lie, measured from now_ms()
    body_bytes_max: int = 256 * 1024  # one message's body, as kept
    request_bytes_max: int = 1024 * 1024  # any request but a batch; holds a body of the limit in base64
    batch_bytes_max: int = 16 * 1024 * 1024
    batch_lines_max: int = 10_000


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a webhook goes. `secret` (a topic's only) signs it; what is None comes from the topic or the default."""

    url: str
    method: str = "POST"
    headers: dict[str, str] | None = None
    timeout_ms: int | None = None  # 100 ms .. 5 min
    secret: str | None = None  # "whsec_" and base64 of 24 to 64 bytes


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a failed hand-over is tried again; None leaves it to the topic, and there to RETRY_DEFAULTS."""

    max_attempts: int | None = None  # 1 .. 1,000 hand-overs, ended leases included; then the message is dead
    min_backoff_ms: int | None = None  # 1 ms .. 7 d: the wait after the first failure; it doubles with each
    max_backoff_ms: int | None = None  # up to this
    max_age_ms: int | None = None  # 0: none; no attempt begins this long after the asked due time


RETRY_DEFAULTS: Final = RetryPolicy(max_attempts=16, min_backoff_ms=1_000, max_backoff_ms=3_600_000, max_age_ms=0)


class MessageIn(msgspec.Struct, frozen=True, gc=False):
    """One message to schedule, parsed and validated.

    At most one of `deliver_at_ms` (absolute; the past means now) and `delay_ms` is set; neither means now; both are
    within `Limits.max_delay_ms`. `content_type` is "" for a JSON document (sent and given back as `body`, byte for
    byte); anything else are opaque bytes, sent and given back as `body_base64`. `fingerprint` (16 bytes, only with a
    key) covers the fields as sent except `key` and `on_conflict`. `headers` are packed (`api.contract.checker`).
    """

    topic: str
    body: bytes
    content_type: str = ""
    deliver_at_ms: int | None = None
    delay_ms: int | None = None
    tags: tuple[str, ...] = ()
    headers: bytes = b""
    key: str | None = None
    on_conflict: str = "reject"  # reject | keep
    fingerprint: bytes | None = None
    target: Target | None = None  # without secret; only for topics in push mode
    extension: bytes = b""


class ScheduleResult(msgspec.Struct, frozen=True):
    """What became of each message, in the order given; columns of n rows.

    `ids` S26; for CONFLICT and KEPT rows the id of the key's holder. `due_ms` int64; for REPLAYED and KEPT rows the
    holder's. `status` uint8: see storage/format/schedule_status.py; `problems` has one entry per FAILED row (e.g. the
    second entry of a split batch met a lost leadership). A refusal of everything is raised, not returned.
    """

    ids: npt.NDArray[np.bytes_]
    due_ms: npt.NDArray[np.int64]
    status: npt.NDArray[np.uint8]
    problems: Mapping[int, Problem] = {}


class ScheduledOne(msgspec.Struct, frozen=True):
    """The same of a single message, whose refusal is raised."""

    id: str
    due_ms: int
    status: int


class HistoryEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happened to a message once. `at_ms` is None, `node` empty, where nobody knows when a hand-over was made."""

    at_ms: int | None
    event: str
    node: str
    term: int
    attempt: int


class MessageView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as GET shows it. `content_type` "" means a JSON body, as in `MessageIn`."""

    id: str
    topic: str
    state: str  # scheduled | ready | leased | delivered | cancelled | dead | expired
    due_ms: int
    asked_due_ms: int
    created_ms: int
    revision: int
    attempt: int
    body: bytes
    content_type: str = ""
    tags: Sequence[str] = ()
    headers: Mapping[str, str] | None = None
    key: str | None = None
    handed_over_ms: int | None = None  # the newest hand-over
    settled_ms: int | None = None
    lateness_ms: int | None = None  # newest hand-over minus asked due
    last_error: str | None = None
    history: Sequence[HistoryEvent] = ()
    dead: Mapping[str, Any] | None = None  # as in `Delivery`
    target: Target | None = None  # the message's own; None: its topic's
    extension: Mapping[str, Any] = {}  # fields that the record keeps there, as it keeps them (`api.contract.fields`)


class CancelResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cancel that took effect (now or earlier). `prior`: none | known | unknown, see API.md DELETE."""

    id: str
    attempts_made: int
    prior: str


class TopicChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings to set; None leaves one as it is. A PUT arrives with every field filled (defaults included)."""

    mode: str | None = None  # pull | push
    lease_ms: int | None = None  # 1 s .. 12 h
    handover: str | None = None  # fast
    paused: bool | None = None
    # None takes these away, UNSET leaves them. A PATCH merges target and retry by field, where None takes one away.
    target: Mapping[str, Any] | msgspec.UnsetType | None = msgspec.UNSET  # fields of Target that were sent
    retry: Mapping[str, Any] | msgspec.UnsetType | None = msgspec.UNSET  # fields of RetryPolicy that were sent
    dead_letter: str | msgspec.UnsetType | None = msgspec.UNSET  # a topic's name


#: What a topic has that nobody configured; also what a PUT gives the fields it leaves out.
TOPIC_DEFAULTS: Final = TopicChange(
    mode="pull", lease_ms=30_000, handover="fast", paused=False, target=None, retry=None, dead_letter=None
)


class TopicView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic with its settings. `counts` (messages by state) only in the list."""

    name: str
    mode: str
    lease_ms: int
    handover: str
    paused: bool
    target: Target | None = None
    retry: RetryPolicy = RETRY_DEFAULTS
    dead_letter: str | None = None
    revision: int
    created_ms: int
    counts: Mapping[str, int] | None = None


class PullIn(msgspec.Struct, frozen=True):
    """A consumer's request for messages of one topic. `lease_ms` None means the topic's own."""

    topic: str
    max: int = 100  # 1 .. PULL_MAX
    wait_ms: int = 0  # 0 .. 30,000
    lease_ms: int | None = None  # 1 s .. 12 h
    tags: tuple[tuple[str, ...], ...] = ()  # any of these groups, all tags of it; () takes every message
    gone: Callable[[], bool] = lambda: False  # whether an answer with something in it reaches nobody any more


class RescheduleResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The message as rescheduled: nothing of it is handed over before `due_ms`."""

    id: str
    topic: str
    due_ms: int
    revision: int


class TransferResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A leadership that was moved on purpose. The last three are the new leader's account, None if it gave none:
    from the old leader's last possible hand-over to its own first; leases carried over; ids handed over in both."""

    from_node: str
    to_node: str
    term_before: int
    term_after: int
    took_ms: int
    gap_ms: int | None = None
    in_flight_carried: int | None = None
    repeated: int | None = None


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message handed over under a lease; made by position, a thousand at once. `content_type` as in `MessageIn`."""

    id: str
    receipt: str
    attempt: int
    term: int
    leased_until_ms: int
    topic: str
    due_ms: int
    asked_due_ms: int
    created_ms: int
    handed_over_ms: int
    body: bytes
    content_type: str = ""
    tags: Sequence[str] = ()
    headers: Mapping[str, str] | None = None
    key: str | None = None
    priority: int = 0
    order_key: str | None = None
    dead: Mapping[str, Any] | None = None  # of a dead-letter copy: the id, topic, reason, attempts, error it died with
    extension: Mapping[str, Any] | None = None  # as in `MessageView`: what a consumer is told of it


class Readiness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`checks`: name -> "ok" or what is missing, in the order to show them."""

    ready: bool
    checks: Mapping[str, str]


class Port(LedgerPort, MemberPort, SnapshotPort, Protocol):
    """The node as the HTTP layer sees it. See the module's rules; times in ms, errors as `Problem`."""

    node_id: str
    limits: Limits
    budget: Budget
    names: Collection[str]  # of this node's host, by which browsers may address it

    def now_ms(self) -> int:
        """The node clock."""

    def term(self) -> int:
        """The newest term this node knows of."""

    def leader(self) -> str | None:
        """Node id of the leader as far as known; a hint for error answers."""

    def leads(self) -> bool:
        """Whether this node proposes now. False: the server forwards. Called on every request, so it must be cheap."""

    def reaches_leader(self) -> bool:
        """Whether this port asks the leader itself where another node leads. False: the server forwards. Answers then
        say in `api.port.forward.ANSWERED` which node gave them."""

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Pass the request to the leader once. `no-leader` if none took the connection, `outcome-unknown` if it broke
        after the request was sent. Cancelling ends a long pull there, and gives back what it brought."""

    async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Durable on a majority and applied when it returns. At least one message."""

    async def schedule_one(self, message: MessageIn, principal: Principal) -> ScheduledOne:
        """The same for a request with a single message."""

    async def message(self, id: str, *, local: bool, principal: Principal) -> MessageView:
        """`unknown-message` also for text that is no id. Linearizable unless `local`."""

    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        """`unknown-message`, `leased` (handed_over, attempt, leased_until), `already-settled`, `revision-mismatch`."""

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        """Set what `change` names. Without `create` an unknown topic is `unknown-topic`. `revision-mismatch`."""

    async def topic(self, name: str, *, principal: Principal) -> TopicView:
        """`unknown-topic`."""

    async def topics(self, after: str, most: int, *, counts: bool, principal: Principal) -> Sequence[TopicView]:
        """By name, behind `after`; with `counts`, which take a pass over all messages, their messages by state."""

    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        """Remove a topic all of whose messages have ended. `unknown-topic`, `not-empty` (pending), `revision-mismatch`,
        `over-limit`; `change-in-progress` when too much comes in to make sure."""

    async def pull(self, request: PullIn, principal: Principal) -> Sequence[Delivery]:
        """Hand over up to `max` and PULL_BYTES_MAX, waiting up to `wait_ms` for the first; empty when none came.
        `unknown-topic`; `no-leader` when leadership ends during the wait."""

    async def ack(self, topic: str, receipts: Sequence[str], principal: Principal) -> Sequence[str]:
        """One result per receipt: acked | stale | invalid. Durable on a majority when it returns."""

    async def nack(
        self, topic: str, receipts: Sequence[str], *, delay_ms: int | None, principal: Principal, counted: bool = True
    ) -> Sequence[str]:
        """Give messages back: due again after `delay_ms` (None: by the retry policy), or dead when the policy says so;
        not `counted` as an attempt, for whoever did not begin. One result per receipt: nacked | stale | invalid.
        Durable on a majority when it returns."""

    async def extend(
        self, topic: str, receipts: Sequence[str], *, lease_ms: int | None, principal: Principal
    ) -> Sequence[str]:
        """Let leases end `lease_ms` from now (None: the topic's). Per receipt: extended | stale | invalid."""

    async def reschedule(
        self, id: str, *, deliver_at_ms: int | None, delay_ms: int | None, if_match: int | None, principal: Principal
    ) -> RescheduleResult:
        """Another due time for a message that is not handed over; the refusals of `cancel`."""

    async def count(self, query: CountQuery, *, principal: Principal) -> int:
        """How many messages match. `unknown-topic`; `over-limit` when too many counts wait."""

    async def histogram(self, query: CountQuery, *, step_ms: int, principal: Principal) -> Sequence[HistogramBucket]:
        """The same by due time, in buckets one behind the other: from `from_ms` on, or else from the multiple of
        `step_ms` where the first message is; up to `to_ms`, or else to the last message. The refusals of `count`;
        `invalid-field` past HISTOGRAM_BUCKETS_MAX buckets."""

    async def dead(self, query: DeadQuery, *, principal: Principal) -> DeadPage:
        """`unknown-topic`."""

    async def redrive(self, query: DeadQuery, *, dry_run: bool, principal: Principal) -> BulkResult:
        """Make dead messages due now, their attempts counted anew; limit and cursor do not count. `unknown-topic`."""

    async def transfer(self, to: str | None, *, principal: Principal) -> TransferResult:
        """Move leadership to node `to`, or to the best. `unknown-node`, `not-caught-up`, `change-in-progress`."""

    def drained(self) -> bool:
        """Whether an operator drained this node: the server refuses new work. Called on every request."""

    async def drain(self, node: str | None, *, principal: Principal) -> DrainView:
        """This node leads nothing and takes no requests; returns when its pushes are off the wire. `unknown-node` if
        another one is meant, `not-caught-up`, `change-in-progress`."""

    async def undrain(self, node: str | None, *, principal: Principal) -> DrainView:
        """It serves again. `unknown-node` if another one is meant."""

    async def outcomes(self, told: Sequence[PushOutcome], *, principal: Principal) -> Sequence[str]:
        """What became of a former leader's pushes. Per receipt: acked | nacked | stale | invalid; durable on a majority
        when it returns. `no-leader` on a node that does not lead."""

    async def takeover(self, told: OpenHandOvers, *, principal: Principal) -> TakeoverView:
        """A new leader's account of what it took over. `no-leader` on a node that does not lead."""

    async def cluster(self) -> Mapping[str, Any]:
        """The document of GET /v1/cluster, JSON-able."""

    async def ready(self) -> Readiness:
        """Whether this node serves: has caught up and knows a leader."""

    async def metrics(self) -> bytes:
        """Prometheus text format."""
