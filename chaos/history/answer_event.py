"""Events for answers that only some runs ask for: to GET, the ledger, counts, redrives. chaos/check/message/answers.py
compares them with the truth."""

from typing import Literal

from chaos.history.seen import Seen

Told = tuple[str, int | None, str, int, int]
"""One event of a message's history as GET tells it: (event, at ms, node, term, attempt)."""


class Looked(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a GET of message `number`, asked at `asked_wall_ms`. The other fields are from the answer."""

    number: int
    message_id: str
    asked_wall_ms: int
    state: str
    due_ms: int
    attempt: int
    handed_over_ms: int | None
    lateness_ms: int | None
    history: tuple[Told, ...]


class Accounted(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The ledger's answer about a message.

    - `kind`: the class of the message, such as `delivered_once`.
    - `hand_overs`: the number that the ledger knows of.
    - `complete`: no account is missing, and nothing of the message was forgotten.
    - `old`: the message is from before the ledger's records.
    """

    number: int
    message_id: str
    asked_mono_ms: float
    kind: str
    hand_overs: int
    complete: bool
    old: bool = False


class Counted(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a count of the open messages of a topic."""

    topic: str
    asked_mono_ms: float
    count: int


class ManyCancelled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a cancel of all messages of a topic that are due in [from_ms, to_ms), asked at `asked_wall_ms`.
    `operation` names it if it was begun. It ended with `changed` cancelled messages, and left `leased` ones alone. -1:
    its end was not seen. `detail` is the code of a refusal."""

    topic: str
    from_ms: int
    to_ms: int
    asked_wall_ms: int
    outcome: Literal["begun", "refused", "unknown"]
    operation: str = ""
    changed: int = -1
    leased: int = 0
    detail: str = ""


class ManyMoved(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a `shift` by `by_ms`, or a `release`, of all messages of a topic that are due in [from_ms, to_ms).
    The other fields are as in ManyCancelled."""

    topic: str
    from_ms: int
    to_ms: int
    asked_wall_ms: int
    outcome: Literal["begun", "refused", "unknown"]
    kind: str
    by_ms: int = 0
    operation: str = ""
    changed: int = -1
    leased: int = 0
    detail: str = ""


class Standing(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """GET says so of message `number`, after the operation that was asked for at `asked_wall_ms` had ended."""

    number: int
    message_id: str
    asked_wall_ms: int
    state: str
    due_ms: int
    attempts: int


class Gone(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """GET says that message `number` is cancelled, and an operation may have done that: the one that was asked for at
    `asked_wall_ms`. Its answer is the moment of this event. `sure`: it was begun, so nothing but that operation, or a
    cancel of this message alone, can have done it."""

    number: int
    message_id: str
    asked_wall_ms: int
    attempts_made: int
    sure: bool


class Summed(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The ledger's sums of all messages: how many are lost, how many strict ones a failover repeated, and all
    hand-overs. `complete` is as in Accounted."""

    asked_mono_ms: float
    lost: int
    strict_failover: int
    hand_overs: int
    complete: bool


class BackedUp(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A backup was written, the only one of a run. It holds what its node had applied: the entries up to
    `applied_index`."""

    node: str
    applied_index: int


class Recalled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """An answer about a message from a cluster that was made from the backup. `prior` is explained at `Cancelled`. The
    answer is one to a cancel (`prior`, `attempts_made`), the ledger's account (the fields after them), or that the
    message is unknown. `again` counts the hand-overs of the message that this cluster had made before it answered."""

    number: int
    message_id: str
    answer: Literal["cancelled", "accounted", "unknown-message"]
    again: int
    prior: str = ""
    attempts_made: int = 0
    kind: str = ""
    hand_overs: int = 0
    complete: bool = False
    old: bool = False


class Redriven(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a redrive of all dead messages of a topic. No other redrive is under way. `done`: `changed`
    messages were redriven. `refused`: none. `unknown`: `changed` are known to be redriven, and perhaps more."""

    topic: str
    asked_mono_ms: float
    outcome: Literal["done", "refused", "unknown"]
    changed: int = 0
    detail: str = ""


class Pulled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A pull that brought nothing to its consumer. `refused`: no message was leased to it. `unknown`: some may have
    been."""

    topic: str
    node: str
    asked_mono_ms: float
    outcome: Literal["refused", "unknown"]
    detail: str = ""


class Wished(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a message that replaces the holder of its key, or `extends` it. `name` is topic and key.

    - `outcome`: `created`, `replaced`, `extended`, `refused` or `unknown`.
    - `message_id`: the message that has the key then. `previous`: the one before, if it was changed.
    """

    number: int
    name: str
    extends: bool
    asked_mono_ms: float
    outcome: str
    message_id: str
    previous: str


class RequestAnswered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A request had its answer, or its client gave it up. It was sent at `asked_mono_ms`. `name` names it among those
    of its `kind`. A request that is sent again has one event for each time."""

    kind: Literal["replace", "extend", "batch", "operation", "running"]
    name: str
    asked_mono_ms: float


class BatchAnswered(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The final answer to an atomic batch: `acknowledged`, `refused` or `unknown`. `replayed` says of each line of an
    acknowledged one whether an earlier request wrote it."""

    numbers: tuple[int, ...]
    outcome: str
    replayed: tuple[bool, ...]


class Kept(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a schedule request with the key of a message that exists. The cluster keeps the message that
    exists, which is due at `due_ms`."""

    number: int
    message_id: str
    asked_wall_ms: int
    due_ms: int
