"""The border between a front and a group for consumers: what they get, and how they settle it.

    front -- PullAsked --> group     makes the lease; it is in the log, or on its way there
      '<---- Deliveries ---'
    front    asks if the client is still there, and the TrustWindow: then ids, receipts and the answer; otherwise
             give_back: due again at once, not counted as an attempt

    front -- Claims -----> group     the hand-overs that receipts name
      '<---- Settled ------'

The front passes on only the claims of receipts whose MAC is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from api.port.problem import Problem
from node.port.plain import U16, U32, Count, Ms, Plain
from node.port.receipt import CLAIM
from node.port.refusal import Refusal
from node.port.trust_window import TrustWindow

#: Results of a claim. The first three are those of replication/apply/message/settle.py. NOT_KNOWN: the claim's part of
#: the request was refused, or its outcome is unknown.
SETTLED: Final = 0
STALE: Final = 1
INVALID: Final = 2
NOT_KNOWN: Final = 3


class PullAsked(Plain, frozen=True):
    """A consumer's pull of up to `most` messages of a topic. `number` is the front's number for it, by which it can end
    the wait. `tags`: a message must have all tags of one of these groups; () takes every message."""

    number: Count
    topic: str
    most: Count
    wait_ms: Ms
    lease_ms: Ms | None = None
    tags: tuple[tuple[str, ...], ...] = ()


class MoreOfDelivery(Plain, frozen=True):
    """Fields that few messages have. `dead`: for a dead-letter copy, how the original ended. `extension`: the fields in
    the record's extension that a consumer gets, as the record keeps them."""

    content_type: str = ""
    tags: tuple[str, ...] = ()
    headers: dict[str, str] | None = None
    key: str | None = None
    priority: U16 = 0
    order_key: str | None = None
    dead: dict[str, Any] | None = None
    extension: dict[str, Any] | None = None


class Deliveries(Plain, frozen=True):
    """Messages of one topic handed over under one lease: little endian columns of n rows, empty if no message came.
    `position` is where a message stands, which its receipt names. `home` is where it was born, which its id names.
    `more` is by row."""

    topic: U32 = 0
    subscription: U16 = 0
    term: U32 = 0
    handed_over_ms: Ms = 0
    leased_until_ms: Ms = 0
    position: bytes = b""  # n * u64
    home: bytes = b""  # n * u64
    random: bytes = b""  # n * u64
    attempt: bytes = b""  # n * u16
    due_ms: bytes = b""  # n * i64
    asked_due_ms: bytes = b""  # n * i64
    created_ms: bytes = b""  # n * i64
    bodies: Sequence[bytes] = ()
    more: Mapping[Count, MoreOfDelivery] = msgspec.field(default_factory=dict)


class Claims(Plain, frozen=True):
    """Hand-overs of one topic that receipts name, each once: rows of receipt.CLAIM, one behind the other."""

    topic: str
    rows: bytes


class NackAsked(Plain, frozen=True):
    """A nack: the messages are due again after `delay_ms`; None means after the backoff of the retry policy. Without
    `counted` the hand-over counts as no attempt, because the consumer never began it."""

    claims: Claims
    delay_ms: Ms | None = None
    counted: bool = True


class ExtendAsked(Plain, frozen=True):
    """An extend: the leases end `lease_ms` from now. None: the lease time of the topic."""

    claims: Claims
    lease_ms: Ms | None = None


class Settled(Plain, frozen=True):
    """The result of each claim, durable on a majority: n * u8 (SETTLED, STALE, INVALID, NOT_KNOWN). `refused`: the
    refusal because of which some results are NOT_KNOWN."""

    results: bytes
    refused: Refusal | None = None


Gone = Callable[[], bool]


def stays() -> bool:
    """Return false. For callers that have no way to notice that their client has gone."""
    return False


class PullPort(Protocol):
    """The calls of consumers. Only the leader answers; other nodes raise `no-leader`. Topics go by name. All calls but
    `pull` raise `unknown-topic`. What is handed over must leave within `window`."""

    window: TrustWindow

    async def pull(self, asked: PullAsked, gone: Gone = stays) -> Deliveries:
        """Hand over up to `most` messages and PULL_BYTES_MAX, and wait up to `wait_ms` for the first one. A topic that
        does not exist yet has no messages. Raises `no-leader` if the term ends meanwhile, and `over-limit`.

        The group calls `gone` before it hands over: if it returns true, the client has gone and gets nothing. A
        function cannot cross as bytes, so the caller calls `gone` too when the answer is here. A cancelled pull has
        handed over nothing. If its messages come nevertheless, they are given back.
        """

    def end_wait(self, number: int) -> None:
        """End the wait of the pull with this number."""

    def give_back(self, claims: Claims) -> None:
        """Give back hand-overs that reached no client: due again at once, and no attempt. If that fails, their leases
        run until they end."""

    async def ack(self, claims: Claims) -> Settled:
        """End the messages of these hand-overs, because their consumer is done."""

    async def nack(self, asked: NackAsked) -> Settled:
        """Make the messages of these hand-overs due again, or dead if the retry policy says so."""

    async def extend(self, asked: ExtendAsked) -> Settled:
        """Make the leases of these hand-overs longer."""


def check_window(port: PullPort, topic: str, handed: Deliveries, now_s: float) -> None:
    """Make sure that handed-over messages of this topic may leave now, at the monotonic second `now_s`. Call it right
    before they leave.

    If the trust window is over, give them back and raise `outcome-unknown`. The outcome is unknown because a group that
    is not sure to lead may fail to give them back.
    """
    if not handed.bodies or port.window.covers(handed.term, handed.leased_until_ms, now_s):
        return
    give_back(port, topic, handed)
    raise Problem(
        "outcome-unknown",
        "the leader changed before the answer was written; what it handed over comes again when its lease has ended",
    )


def give_back(port: PullPort, topic: str, handed: Deliveries) -> None:
    """Give back messages that no client gets."""
    port.give_back(Claims(topic, claims_of(handed)))


def claims_of(handed: Deliveries) -> bytes:
    """Return rows of receipt.CLAIM that name these hand-overs."""
    rows = np.empty(len(handed.bodies), CLAIM)
    rows["position"], rows["random"] = (
        np.frombuffer(handed.position, np.uint64),
        np.frombuffer(handed.random, np.uint64),
    )
    rows["attempt"] = np.frombuffer(handed.attempt, np.uint16)
    rows["topic"], rows["subscription"], rows["term"] = handed.topic, handed.subscription, handed.term
    return rows.tobytes()
