"""Two protocols, each with one side over HTTP and one in the simulator: the calls that clients make, and the runner of
their tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from api.port.port import CancelResult, Delivery, RescheduleResult
from chaos.client.outcome import Outcome
from chaos.history.answer_event import Told

#: The ledger's flags of a message that lacks some of its records.
OUTSIDE: Final = "outside_window"
FORGOTTEN: Final = frozenset({OUTSIDE, "records_missing"})


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One message. Its number is its body, and `k<number>` its key. Every try sends the same, for one fingerprint."""

    number: int
    topic: str
    asked_due_ms: int
    keyed: bool


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A message that the cluster took."""

    id: str
    due_ms: int


class View(msgspec.Struct, frozen=True):
    """The answer of GET about a message."""

    state: str
    due_ms: int
    attempt: int
    handed_over_ms: int | None
    lateness_ms: int | None
    history: tuple[Told, ...]


class Account(msgspec.Struct, frozen=True):
    """The ledger's answer about a message. The fields are those of `Accounted`."""

    kind: str
    hand_overs: int
    complete: bool
    old: bool


class Sums(msgspec.Struct, frozen=True):
    """The ledger's sums of all messages. The fields are those of `Summed`."""

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


class Client(Protocol):
    """A client of one node. It sends a call once, and raises nothing that a cluster can cause."""

    node: str  # its id

    async def schedule(self, offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        """Send one request. Return one outcome for each offer."""

    async def pull(self, topic: str, most: int, wait_ms: int) -> Outcome[Sequence[Delivery]]:
        """Pull up to `most` messages. Wait `wait_ms` for the first."""

    async def ack(self, topic: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        """Return one result for each receipt: acked, stale, invalid."""

    async def nack(self, topic: str, receipts: Sequence[str], delay_ms: int | None) -> Outcome[Sequence[str]]:
        """Give messages back, due again after `delay_ms`. None: by the retry policy."""

    async def extend(self, topic: str, receipts: Sequence[str], lease_ms: int) -> Outcome[Sequence[str]]:
        """Let leases end `lease_ms` from now."""

    async def cancel(self, message_id: str) -> Outcome[CancelResult]:
        """Cancel a message."""

    async def reschedule(self, message_id: str, due_ms: int, if_match: int | None) -> Outcome[RescheduleResult]:
        """Give a message another due time. With `if_match` only if it has this revision."""

    async def look(self, message_id: str, *, ledger: bool) -> Outcome[tuple[View, Account | None]]:
        """GET a message. With `ledger` also the ledger's account, None if it has none."""

    async def sums(self) -> Outcome[Sums]:
        """Return the ledger's sums of all time."""


class Runner(Protocol):
    """Runs the tasks of clients."""

    def now_s(self) -> float:
        """The monotonic time."""

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass."""

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Run `task` beside the others."""

    def after(self, seconds: float, call: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start `call(*args)` this many seconds from now."""
