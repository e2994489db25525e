"""The service port: the calls of the HTTP layer to the node, and every type that crosses it.

It keeps HTTP apart from consensus and storage, so tests run the real server over a few dictionaries.
- Arguments are validated for type, size and spelling. The port checks what needs state (keys, leases, revisions).
- Results are plain values: times are int64 milliseconds UTC (`*_ms`), bodies are bytes, ids and receipts are str.
- A refusal is a `Problem`. Any other exception is answered 500 and logged with its traceback.
- A method may be cancelled at any await: the client closed its connection, or the node drains. A cancelled `pull` has
  made no lease. A cancelled `schedule` may or may not have been proposed.
- Right before a call, the server checks that this node `leads()` or `reaches_leader()`. It does not for `forward`,
  `message(local=True)`, `cluster`, `ready` and `metrics`. If leadership is lost later, the port raises `no-leader` (if
  nothing was proposed) or `outcome-unknown` (if it may have happened).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from api.port.backup import SnapshotPort
from api.port.budget import Budget
from api.port.forward import ForwardAnswer, ForwardRequest, RequestKey
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView, TransferResult
from api.port.ledger import LedgerPort
from api.port.member import MemberPort
from api.port.message import MessagePage, MessageView, Target
from api.port.problem import Problem
from api.port.queries import (
    BeginPort,
    CountQuery,
    DeadPage,
    DeadQuery,
    Histogram,
    ListQuery,
    MessageCount,
    OperationPort,
    WheelHour,
    WheelQuery,
)

#: Most messages of a pull, most receipts of an ack.
PULL_MAX: Final = 1_000
ACK_MAX: Final = 10_000
#: Bound on the stored sizes (bodies and all) in a pull, so that base64 and escaping keep the answer <= 16 MiB.
PULL_BYTES_MAX: Final = 7 * 1024 * 1024


class Principal(msgspec.Struct, frozen=True):
    """The caller. Anonymous until there are tokens."""

    name: str


ANONYMOUS: Final = Principal("anonymous")

#: RocketMQ's 18 delay levels; level 1 is the first.
DELAY_LEVELS_MS: Final = tuple(1_000 * s for s in (1, 5, 10, 30, *range(60, 601, 60), 1_200, 1_800, 3_600, 7_200))


class Limits(msgspec.Struct, frozen=True):
    """Bounds of a request. A larger size costs memory for each connection, and is as safe."""

    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS  # `delay_level: n` stands for the n-th, from 1
    push_allow: tuple[str, ...] | None = None  # networks that a push may go to beside public ones; None: any address
    max_delay_ms: int = 3650 * 86_400_000  # how far ahead a due time may lie, measured from now_ms()
    body_bytes_max: int = 256 * 1024  # one message's body, as kept
    request_bytes_max: int = 1024 * 1024  # any request but a batch; holds a body of the limit in base64
    batch_bytes_max: int = 16 * 1024 * 1024
    batch_lines_max: int = 10_000


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a failed delivery is tried again. None means the topic's value, and in a topic that of RETRY_DEFAULTS."""

    max_attempts: int | None = None  # 1 .. 1,000 deliveries, ended leases included; then the message is dead
    min_backoff_ms: int | None = None  # 1 ms .. 7 d: the wait after the first failure; it doubles with each
    max_backoff_ms: int | None = None  # up to this
    max_age_ms: int | None = None  # 0: none; no attempt begins this long after the asked due time


RETRY_DEFAULTS: Final = RetryPolicy(max_attempts=16, min_backoff_ms=1_000, max_backoff_ms=3_600_000, max_age_ms=0)


class Extend(msgspec.Struct, frozen=True):
    """How a message extends the holder of its key. The holder is due at most `max_wait_ms` after its creation. With
    `due_only` it keeps its content."""

    max_wait_ms: int = 86_400_000
    due_only: bool = False


EXTEND_DEFAULTS: Final = Extend()


class MessageIn(msgspec.Struct, frozen=True, gc=False):
    """A message to schedule, parsed and validated.

    - At most one of `due_ms` (absolute; the past means now) and `delay_ms` is set. Neither means now. Both are
      within `Limits.max_delay_ms`.
    - `content_type`: "" for a JSON document, sent and returned as `body`, byte for byte. Otherwise the body is opaque
      bytes, sent and returned as `body_base64`.
    - `fingerprint`: 16 bytes, only with a key. It covers the fields as sent except `key` and `on_conflict`.
    - `headers`: packed (`api.contract.checker`).
    """

    topic: str
    body: bytes
    content_type: str = ""
    due_ms: int | None = None
    delay_ms: int | None = None
    tags: tuple[str, ...] = ()
    headers: bytes = b""
    key: str | None = None
    on_conflict: str = "reject"  # a word of ON_CONFLICT (storage/format/schedule_status.py)
    fingerprint: bytes | None = None
    target: Target | None = None  # without secret; only for topics in push mode
    extension: bytes = b""
    extend: Extend | None = None  # only if `on_conflict` is extend; None: the defaults


class Superseded(msgspec.Struct, frozen=True):
    """The message that had the key before: now cancelled (REPLACED), or with another due time (EXTENDED). `prior`: see
    CancelResult. `revision` is that of the message that has the key now."""

    id: str
    attempts_made: int
    prior: str
    revision: int


class ScheduleResult(msgspec.Struct, frozen=True):
    """The result of each message, in the order given; columns of n rows. A refusal of all messages is raised instead.

    - `ids`: S26; for CONFLICT, KEPT and EXTENDED rows the id of the key's holder.
    - `due_ms`: int64; for REPLAYED, KEPT and EXTENDED rows the holder's.
    - `status`: uint8, see storage/format/schedule_status.py.
    - `problems`: one per FAILED row (e.g. leadership was lost before the second entry of a split batch).
    - `superseded`: one per REPLACED or EXTENDED row.
    """

    ids: npt.NDArray[np.bytes_]
    due_ms: npt.NDArray[np.int64]
    status: npt.NDArray[np.uint8]
    problems: Mapping[int, Problem] = {}
    superseded: Mapping[int, Superseded] = {}


class ScheduledOne(msgspec.Struct, frozen=True):
    """The result of a single message. Fields are as in `ScheduleResult`; a refusal is raised instead."""

    id: str
    due_ms: int
    status: int
    superseded: Superseded | None = None


class CancelResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cancelled message. `prior`: without deliveries (none), all are in `attempts_made` (known), or not (unknown)."""

    id: str
    attempts_made: int
    prior: str


class TopicChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings to set. None leaves one as it is. A PUT comes with every field filled (defaults included)."""

    mode: str | None = None  # pull | push
    lease_ms: int | None = None  # 1 s .. 12 h
    handover: str | None = None  # fast | strict
    paused: bool | None = None
    # None takes these away, UNSET leaves them. A PATCH merges target and retry by field, where None takes one away.
    target: Mapping[str, Any] | msgspec.UnsetType | None = msgspec.UNSET  # fields of Target that were sent
    retry: Mapping[str, Any] | msgspec.UnsetType | None = msgspec.UNSET  # fields of RetryPolicy that were sent
    dead_letter: str | msgspec.UnsetType | None = msgspec.UNSET  # a topic's name


#: Settings of a topic that was never configured, and of fields that a PUT leaves out.
TOPIC_DEFAULTS: Final = TopicChange(
    mode="pull", lease_ms=30_000, handover="fast", paused=False, target=None, retry=None, dead_letter=None
)


class TopicView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic with its settings. Only the list has `counts` (messages by state), and `held`: so many messages paused
    operations hold."""

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
    held: int = 0


class PullIn(msgspec.Struct, frozen=True):
    """A consumer's request for messages of a topic. `lease_ms` None means the topic's own."""

    topic: str
    max: int = 100  # 1 .. PULL_MAX
    wait_ms: int = 0  # 0 .. 30,000
    lease_ms: int | None = None  # 1 s .. 12 h
    tags: tuple[tuple[str, ...], ...] = ()  # any of these groups, with all its tags; () takes every message
    gone: Callable[[], bool] = lambda: False  # true if a delivery in the answer would reach no client any more


class RescheduleResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The message as rescheduled. It is not delivered before `due_ms`."""

    id: str
    topic: str
    due_ms: int
    revision: int


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message delivered under a lease. Fields are passed by position, for speed. `content_type` as in `MessageIn`."""

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
    dead: Mapping[str, Any] | None = None  # of a dead-letter copy: the original's id, topic, reason, attempts, error
    extension: Mapping[str, Any] | None = None  # as in `MessageView`: the fields that a consumer sees


class Readiness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer of /readyz. `checks`: the name of each check -> "ok" or what is missing, in the order to show them."""

    ready: bool
    checks: Mapping[str, str]


class KeyedPort(BeginPort, Protocol):
    """The calls that a request may make under an `Idempotency-Key`. Then each raises `key-reused` too, if the key
    belongs to another request."""

    async def schedule_one(self, message: MessageIn, principal: Principal) -> ScheduledOne:
        """Schedule a single message. It is durable on a majority and applied at return."""

    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        """Cancel a message. Raises `unknown-message`, `leased` (handed_over, attempt, leased_until), `already-settled`,
        `revision-mismatch`."""

    async def reschedule(
        self, id: str, *, due_ms: int | None, delay_ms: int | None, if_match: int | None, principal: Principal
    ) -> RescheduleResult:
        """Set another due time for a message that is not delivered. Refusals as for `cancel`."""

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        """Set the settings that `change` names. `create` makes a topic that does not exist; without it `unknown-topic`
        is raised. Raises `revision-mismatch` too."""

    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        """Remove a topic whose messages have all ended. Raises `unknown-topic`, `not-empty` (with `pending`),
        `revision-mismatch`, `over-limit`, and `change-in-progress` if new messages come in too fast to make sure."""


class Port(KeyedPort, LedgerPort, MemberPort, OperationPort, SnapshotPort, Protocol):
    """The node as the HTTP layer sees it. See the module's rules. Times are in ms, errors are `Problem`."""

    node_id: str
    limits: Limits
    budget: Budget
    names: Collection[str]  # names of this node's host that browsers may use

    def now_ms(self) -> int:
        """Return the time of the node's clock."""

    def term(self) -> int:
        """Return the newest term that this node knows."""

    def leader(self) -> str | None:
        """Return the leader's node id as far as known: a hint for error answers."""

    def leads(self) -> bool:
        """True if this node proposes now. If False, the server asks the leader. Must be cheap."""

    def reaches_leader(self) -> bool:
        """True if this port asks the leader itself when its methods are called here. False: the server uses `forward`.
        The port then names the node that answered in `api.port.forward.ANSWERED`."""

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Pass the request to the leader once. Raises `no-leader` if none took the connection, `outcome-unknown` if it
        broke after the request was sent. Cancelling a pull ends its wait there, and its messages are given back."""

    def keyed(self, key: RequestKey) -> KeyedPort:
        """Return what carries out a request under its `Idempotency-Key`."""

    async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Schedule at least one message. Durable on a majority and applied at return."""

    async def schedule_all(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Schedule all messages in one entry, or none. Each has a key of its own and changes no other message. If any
        is FAILED or a CONFLICT, none was scheduled."""

    async def message(self, id: str, *, local: bool, principal: Principal) -> MessageView:
        """Return a message. Linearizable unless `local`. Raises `unknown-message`, also for text that is no id."""

    async def topic(self, name: str, *, principal: Principal) -> TopicView:
        """Return a topic. Raises `unknown-topic`."""

    async def topics(self, after: str, most: int, *, counts: bool, principal: Principal) -> Sequence[TopicView]:
        """Return at most `most` topics by name, behind the name `after`. `counts` adds the number of their messages by
        state, which takes a pass over all messages."""

    async def pull(self, request: PullIn, principal: Principal) -> Sequence[Delivery]:
        """Deliver up to `max` messages and PULL_BYTES_MAX. Wait up to `wait_ms` for the first; empty if none came. A
        topic that does not exist yet has none. Raises `no-leader` if leadership ends during the wait."""

    async def ack(self, topic: str, receipts: Sequence[str], principal: Principal) -> Sequence[str]:
        """Return one result per receipt: acked | stale | invalid. Durable on a majority at return."""

    async def nack(
        self, topic: str, receipts: Sequence[str], *, delay_ms: int | None, principal: Principal, counted: bool = True
    ) -> Sequence[str]:
        """Give messages back: due again after `delay_ms` (None: by the retry policy), or dead by the policy. Without
        `counted` it is no attempt, for a consumer that did not begin. Return per receipt: nacked | stale | invalid.
        Durable on a majority."""

    async def extend(
        self, topic: str, receipts: Sequence[str], *, lease_ms: int | None, principal: Principal
    ) -> Sequence[str]:
        """Let leases end `lease_ms` from now (None: the topic's). Return per receipt: extended | stale | invalid."""

    async def messages(self, query: ListQuery, *, principal: Principal) -> MessagePage:
        """Return a page of the messages that match, without their history. Raises `unknown-topic`, `over-limit`, and
        `invalid-field` for a cursor of another query or another cluster."""

    async def count(self, query: CountQuery, *, principal: Principal) -> MessageCount:
        """Return how many messages match. Raises `unknown-topic`, `over-limit`."""

    async def histogram(self, query: CountQuery, *, step_ms: int | None, principal: Principal) -> Histogram:
        """Count by due time, in buckets from `from_ms`, or the multiple of `step_ms` before the first message, to
        `to_ms`, or the last message. With `step_ms` None the leader chooses a step, and they begin at its multiples.
        Refusals as for `count`; `invalid-field` for too many buckets."""

    async def wheel(self, query: WheelQuery, *, principal: Principal) -> WheelHour:
        """Return an hour of the wheel, second by second. Refusals as for `count`."""

    async def dead(self, query: DeadQuery, *, principal: Principal) -> DeadPage:
        """Return a page of dead letters. Raises `unknown-topic`."""

    async def transfer(self, to: str | None, *, principal: Principal) -> TransferResult:
        """Move leadership to node `to`, or if None to the node that lacks least. Raises `unknown-node`,
        `not-caught-up`, `change-in-progress`."""

    def drained(self) -> bool:
        """True if an operator drained this node. The server then refuses new work. Called on every request."""

    async def drain(self, node: str | None, *, principal: Principal) -> DrainView:
        """Make this node lead nothing and take no requests. Returns when its pushes are off the wire. Raises
        `unknown-node` if another node is meant, `not-caught-up`, `change-in-progress`."""

    async def undrain(self, node: str | None, *, principal: Principal) -> DrainView:
        """Let this node serve again. Raises `unknown-node` if another node is meant."""

    async def outcomes(self, told: Sequence[PushOutcome], *, principal: Principal) -> Sequence[str]:
        """Take the outcomes of a former leader's pushes. Return per receipt: acked | nacked | stale | invalid. Durable
        on a majority at return. Raises `no-leader` on a node that does not lead."""

    async def takeover(self, told: OpenHandOvers, *, principal: Principal) -> TakeoverView:
        """Return a new leader's account of its takeover. Raises `no-leader` on a node that does not lead."""

    async def cluster(self) -> Mapping[str, Any]:
        """Return the document of GET /v1/cluster, JSON-able."""

    async def ready(self) -> Readiness:
        """Return if this node serves, and each check. It serves if it has caught up and knows a leader."""

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus text format."""
