"""Two protocols: the calls that a client of a node makes, and the runner of clients' tasks. Real processes get them
over HTTP and asyncio (chaos/load/client.py), simulated nodes in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from api.port.port import CancelResult, Delivery, RescheduleResult
from chaos.client.outcome import Outcome
from chaos.history.answer_event import Told

#: The flags by which the ledger says that it lacks some records of a message.
OUTSIDE: Final = "outside_window"
FORGOTTEN: Final = frozenset({OUTSIDE, "records_missing"})


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One message that a producer offers. Its body is its number, its key is `k<number>` if `keyed`. With `once` it has
    no key, and is sent under an `Idempotency-Key`. Every try sends the same content, so all tries have one
    fingerprint."""

    number: int
    topic: str
    asked_due_ms: int
    keyed: bool
    once: bool = False


class Placed(msgspec.Struct, frozen=True, gc=False):
    """The answer to a scheduled message: the id and the due time that the cluster gave it. `replayed`: by an earlier
    request."""

    id: str
    due_ms: int
    replayed: bool = False


class View(msgspec.Struct, frozen=True):
    """The fields of GET `/v1/messages/{id}` that the checkers use."""

    state: str
    due_ms: int
    attempt: int
    handed_over_ms: int | None
    lateness_ms: int | None
    history: tuple[Told, ...]


class Account(msgspec.Struct, frozen=True):
    """The ledger's answer about a message. The fields are those of `Accounted` (chaos/history/answer_event.py)."""

    kind: str
    hand_overs: int
    complete: bool
    old: bool


class Sums(msgspec.Struct, frozen=True):
    """The ledger's sums of all messages. The fields are those of `Summed` (chaos/history/answer_event.py)."""

    lost: int
    strict_failover: int
    hand_overs: int
    complete: bool


def account_of(kind: str, hand_overs: int, complete: bool, flags: Collection[str]) -> Account:
    """Return the account from the ledger's answer about a message."""
    return Account(kind, hand_overs, complete and not FORGOTTEN.intersection(flags), OUTSIDE in flags)


def sums_of(counts: Mapping[str, Any], complete: bool) -> Sums:
    """Return the sums from the ledger's summary."""
    whole = complete and not any(counts["flags"][flag] for flag in FORGOTTEN)
    return Sums(counts["classes"]["lost"], counts["strict_failover"], counts["hand_overs"], whole)


class Many(msgspec.Struct, frozen=True):
    """An operation as a node shows it: its id, and if it has ended. `changed` counts the messages that it has changed,
    `leased` those that it left alone because they were leased."""

    name: str
    ended: bool
    changed: int
    leased: int


class Wish(msgspec.Struct, frozen=True):
    """A message that is to replace the holder of its key, or `extends` it. An extended holder keeps its body, and is
    due at most `max_wait_ms` after its creation."""

    number: int
    topic: str
    key: str
    due_ms: int
    extends: bool
    max_wait_ms: int


class WishAnswer(msgspec.Struct, frozen=True):
    """The answer to a wish: `outcome` is `created`, `replaced` or `extended`, and `id` has the key then. `previous` is
    the id of the message before, empty if it was not changed. The last three fields are about that one."""

    id: str
    due_ms: int
    outcome: str
    previous: str = ""
    prior: str = ""
    attempts_made: int = 0
    revision: int = 0


Verb = Literal["pause", "resume"]


class Client(Protocol):
    """A client of one node. It sends each call once. A refusal, a broken connection or a timeout is an Outcome and
    raises nothing."""

    node: str  # its id

    async def schedule(self, offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        """Send all offers in one request. Return one outcome for each offer, in their order."""

    async def schedule_all(self, offers: Sequence[Offer], taken: Offer | None) -> Outcome[Sequence[Placed]]:
        """Send all offers as an atomic batch. The last one has the key of `taken`, if there is one."""

    async def wish(self, wish: Wish) -> Outcome[WishAnswer]:
        """Schedule a message that replaces or extends the holder of its key."""

    async def wish_all(self, wishes: Sequence[Wish]) -> Outcome[Sequence[WishAnswer]]:
        """Send all wishes as an atomic batch."""

    async def pull(self, topic: str, most: int, wait_ms: int) -> Outcome[Sequence[Delivery]]:
        """Pull up to `most` messages. The node waits up to `wait_ms` for the first."""

    async def ack(self, topic: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        """Ack the deliveries of these receipts. Return one result for each: acked, stale, invalid."""

    async def nack(self, topic: str, receipts: Sequence[str], delay_ms: int | None) -> Outcome[Sequence[str]]:
        """Nack the deliveries of these receipts, so that the messages are due again after `delay_ms`. None: after the
        topic's backoff. Return one result for each receipt."""

    async def extend(self, topic: str, receipts: Sequence[str], lease_ms: int) -> Outcome[Sequence[str]]:
        """Let the leases of these receipts end `lease_ms` from now. Return one result for each receipt."""

    async def cancel(self, message_id: str) -> Outcome[CancelResult]:
        """Cancel a message."""

    async def change_many(
        self, kind: str, topic: str, window: range, by_ms: int | None, rate: int | None
    ) -> Outcome[Many]:
        """Begin an operation on the messages of a topic that are due in `window` (ms). `by_ms`: how far a shift moves
        them, `rate`: at most so many a second. Do not wait for the end."""

    async def operation(self, name: str) -> Outcome[Many]:
        """GET an operation."""

    async def change_operation(self, name: str, verb: Verb) -> Outcome[Many]:
        """Pause an operation, or let it go on."""

    async def reschedule(self, message_id: str, due_ms: int, if_match: int | None) -> Outcome[RescheduleResult]:
        """Give a message another due time. With `if_match` only if it has this revision."""

    async def look(self, message_id: str, *, ledger: bool) -> Outcome[tuple[View, Account | None]]:
        """GET a message. With `ledger` also the ledger's account, None if it has none."""

    async def sums(self) -> Outcome[Sums]:
        """Return the ledger's sums over all messages that were ever scheduled."""


class Runner(Protocol):
    """Runs the tasks of clients: on the event loop, or on the virtual time of the simulator."""

    def now_s(self) -> float:
        """The monotonic time in seconds."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Run `task` beside the others."""

    def after(self, seconds: float, call: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start `call(*args)` this many seconds from now."""
