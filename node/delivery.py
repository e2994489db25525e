"""What a consumer gets for units that were handed over: their records, ids and receipts put together.

Consumers take a thousand at a time, so what can be is made in columns; what is left is one record and one Delivery for
each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from api.port import Delivery
from node.lease_book import HandOver
from node.queues import GROUP
from node.receipt import Receipts
from storage.array import I64, U64
from storage.message_id import encode_ids
from storage.record import Record
from storage.store import Store

_position = attrgetter("position")
_random = attrgetter("random")
_asked_due_ms = attrgetter("asked_due_ms")


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Deliveries in the order of their hand-over, and what the delivery log wants to know of them, shape [n] each."""

    deliveries: list[Delivery]
    home: U64
    random: U64
    asked_due_ms: I64


def make_deliveries(hand_over: HandOver, topic: str, term: int, store: Store, receipts: Receipts) -> Made:
    """One delivery per unit; `topic` is its name. Ids name where messages were born, receipts where they stand."""
    records = store.records(hand_over.position)
    home, random = _column(_position, records, np.uint64), _column(_random, records, np.uint64)
    asked_due_ms = _column(_asked_due_ms, records, np.int64)
    texts = receipts.make(
        position=hand_over.position, random=random, topic=hand_over.topic, term=term, attempt=hand_over.attempt
    )
    ids = encode_ids(GROUP, home, random).astype("U26").tolist()
    lease_end_ms, handed_over_ms = hand_over.lease_end_ms, hand_over.handed_over_ms
    rows = zip(ids, texts, records, hand_over.attempt.tolist(), hand_over.due_ms.tolist(), strict=True)
    deliveries = [
        Delivery(
            id=id,
            receipt=receipt,
            attempt=attempt,
            term=term,
            leased_until_ms=lease_end_ms,
            topic=topic,
            due_ms=due_ms,
            asked_due_ms=record.asked_due_ms,
            created_ms=record.created_ms,
            handed_over_ms=handed_over_ms,
            body=record.body,
            content_type=record.content_type,
            tags=record.tags,
            headers=record.headers or None,
            key=record.key.decode() if record.key else None,
            priority=record.priority,
        )
        for id, receipt, record, attempt, due_ms in rows
    ]
    return Made(deliveries, home, random, asked_due_ms)


def _column(value: Callable[[Record], Any], records: Iterable[Record], kind: type[np.generic]) -> Any:
    return np.array(list(map(value, records)), kind)
