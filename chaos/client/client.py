"""The calls that clients make, and what their tasks run on: two protocols, each with one side over HTTP and one in the
simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from api.port.port import CancelResult, Delivery, RescheduleResult
from chaos.client.outcome import Outcome
from chaos.history.told_event import Told

#: What the ledger says of a message some of whose records are gone.
OUTSIDE: Final = "outside_window"
FORGOTTEN: Final = frozenset({OUTSIDE, "records_missing"})


class Offer(msgspec.Struct, frozen=True, gc=False):
    """One message; its number is its body, `k<number>` its key. The same for every try, so that its fingerprint is."""

    number: int
    topic: str
    asked_due_ms: int
    keyed: bool


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A message that was taken."""

    id: str
    due_ms: int


class View(msgspec.Struct, frozen=True):
    """What GET says of a message."""

    state: str
    due_ms: int
    attempt: int
    handed_over_ms: int | None
    lateness_ms: int | None
    history: tuple[Told, ...]


class Account(msgspec.Struct, frozen=True):
    """What the ledger says of a message; the fields are those of `Accounted`."""

    kind: str
    hand_overs: int
    complete: bool
    old: bool


class Sums(msgspec.Struct, frozen=True):
    """What the ledger sums up of all messages; the fields are those of `Summed`."""

    lost: int
    strict_failover: int
    hand_overs: int
    complete: bool


def account_of(kind: str, hand_overs: int, complete: bool, flags: Collection[str]) -> Account:
    """Of the ledger's word on a message."""
    return Account(kind, hand_overs, complete and not FORGOTTEN.intersection(flags), OUTSIDE in flags)


def sums_of(counts: Mapping[str, Any], complete: bool) -> Sums:
    """Of the ledger's summary."""
    whole = complete and not any(counts["flags"][flag] for flag in FORGOTTEN)
    return Sums(counts["classes"]["lost"], counts["strict_failover"], counts["hand_overs"], whole)


class Client(Protocol):
    """A client of one node. A call is sent once; it raises nothing that a cluster can cause."""

    node: str  # its id

    async def schedule(self, offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        """One request; one outcome for each offer."""

    async def pull(self, topic: str, most: int, wait_ms: int) -> Outcome[Sequence[Delivery]]:
        """Up to `most` messages; waits so long for the first."""

    async def ack(self, topic: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        """One result for each receipt: acked, stale, invalid."""

    async def nack(self, topic: str, receipts: Sequence[str], delay_ms: int | None) -> Outcome[Sequence[str]]:
        """Gives messages back, due again after `delay_ms`; None: by the retry policy."""

    async def extend(self, topic: str, receipts: Sequence[str], lease_ms: int) -> Outcome[Sequence[str]]:
        """Lets leases end `lease_ms` from now."""

    async def cancel(self, message_id: str) -> Outcome[CancelResult]:
        """Cancels a message."""

    async def reschedule(self, message_id: str, due_ms: int, if_match: int | None) -> Outcome[RescheduleResult]:
        """Gives a message another due time; with `if_match` only if it has this revision."""

    async def look(self, message_id: str, *, ledger: bool) -> Outcome[tuple[View, Account | None]]:
        """GET; with `ledger` also the ledger's word, None where it has none."""

    async def sums(self) -> Outcome[Sums]:
        """The ledger's sums of all time."""


class Runner(Protocol):
    """What clients' tasks run on."""

    def now_s(self) -> float:
        """Monotonic."""

    async def sleep(self, seconds: float) -> None:
        """Lets so much time pass."""

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Runs `task` beside the others."""

    def after(self, seconds: float, call: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Starts `call(*args)` so many seconds from now."""
