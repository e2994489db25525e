"""The border between a front and a group for consumers: what they are handed, and what they say of it.

front -- PullAsked --> group     makes the lease; it is in the log, or on its way there
  '<---- Deliveries ---'
front    asks if the client is still there, and the TrustWindow: then ids, receipts and the answer; else
         give_back: due again at once, not counted as an attempt
front -- Claims -----> group     what the receipts name whose MAC is right
  '<---- Settled ------'
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

#: Results of a claim. The first three are those of replication/apply/message/settle.py.
SETTLED: Final = 0
STALE: Final = 1
INVALID: Final = 2
NOT_KNOWN: Final = 3


class PullAsked(Plain, frozen=True):
    """A consumer asks for messages of a topic. `number` is the front's, by which it can end the wait. `tags`: a message
    has all tags of one of these groups. () takes every message."""

    number: Count
    topic: str
    most: Count
    wait_ms: Ms
    lease_ms: Ms | None = None
    tags: tuple[tuple[str, ...], ...] = ()


class MoreOfDelivery(Plain, frozen=True):
    """Fields that few messages have. `dead`: of a dead-letter copy, the facts of its end. `extension`: fields that the
    record keeps there and that a consumer gets, as they are kept."""

    content_type: str = ""
    tags: tuple[str, ...] = ()
    headers: dict[str, str] | None = None
    key: str | None = None
    priority: U16 = 0
    order_key: str | None = None
    dead: dict[str, Any] | None = None
    extension: dict[str, Any] | None = None


class Deliveries(Plain, frozen=True):
    """Messages of one topic handed over under one lease: little endian columns of n rows, none if none came. A receipt
    names `position`, where a message stands. An id names `home`, where it was born. `more` is by row."""

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
    """Hand-overs of a topic, each once: rows of receipt.CLAIM one behind the other."""

    topic: str
    rows: bytes


class NackAsked(Plain, frozen=True):
    """Give messages back, due again after `delay_ms`, or by the retry policy if that is None. A hand-over that never
    began is not `counted`."""

    claims: Claims
    delay_ms: Ms | None = None
    counted: bool = True


class ExtendAsked(Plain, frozen=True):
    """Let leases end this long from now. None: the topic's own time."""

    claims: Claims
    lease_ms: Ms | None = None


class Settled(Plain, frozen=True):
    """A result for each claim, durable on a majority: n * u8 (SETTLED, STALE, INVALID, NOT_KNOWN). `refused`: why a
    part of them is not known."""

    results: bytes
    refused: Refusal | None = None


Gone = Callable[[], bool]


def stays() -> bool:
    """The client has not gone."""
    return False


class PullPort(Protocol):
    """Only the leader answers. Other nodes raise `no-leader`. Topics go by name: `unknown-topic`, but for a pull.
    Hand-overs leave within `window`."""

    window: TrustWindow

    async def pull(self, asked: PullAsked, gone: Gone = stays) -> Deliveries:
        """Hand over up to `most` and PULL_BYTES_MAX, waiting for the first. A topic that does not exist yet has none.
        Raises `no-leader` when the term ends meanwhile, and `over-limit`. `gone` saves a hand-over that no client gets.
        A border of bytes does not pass it, so the caller looks again. A cancelled pull has handed over nothing, and
        messages that come all the same are given back."""

    def end_wait(self, number: int) -> None:
        """End the wait of the pull of this number."""

    def give_back(self, claims: Claims) -> None:
        """Give back hand-overs that reached no client: due at once, not counted. If that fails their leases run."""

    async def ack(self, claims: Claims) -> Settled:
        """End these messages: they are done."""

    async def nack(self, asked: NackAsked) -> Settled:
        """Let these messages come again, or be dead if the policy says so."""

    async def extend(self, asked: ExtendAsked) -> Settled:
        """Extend these leases."""


def check_window(port: PullPort, topic: str, handed: Deliveries, now_s: float) -> None:
    """Ask the window right before messages of this topic leave, at this monotonic second. Past the window they are
    given back. Then raises `outcome-unknown`: a group that is not sure to lead may not come to give them back."""
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
    """Rows of receipt.CLAIM that name these hand-overs."""
    rows = np.empty(len(handed.bodies), CLAIM)
    rows["position"], rows["random"] = (
        np.frombuffer(handed.position, np.uint64),
        np.frombuffer(handed.random, np.uint64),
    )
    rows["attempt"] = np.frombuffer(handed.attempt, np.uint16)
    rows["topic"], rows["subscription"], rows["term"] = handed.topic, handed.subscription, handed.term
    return rows.tobytes()
