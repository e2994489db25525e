"""What a consumer gets for units that were handed over: their records, ids and receipts put together.

Consumers take a thousand at a time, so everything is made in columns; what is left for each message is one Delivery,
and a Record only if it has tags, headers, a key or a content type.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import msgspec

from api.port.port import Delivery
from node.handover.lease_book import HandOver
from node.message.view import dead_of
from node.receipt import Receipts
from storage.catalog.topic import number_of, topic_of
from storage.format.array import I64, U64
from storage.format.message_id import ID_LENGTH, encode_ids
from storage.format.record import Record
from storage.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Deliveries in the order of their hand-over, and what the delivery log wants to know of them, shape [n] each."""

    deliveries: list[Delivery]
    home: U64
    random: U64
    asked_due_ms: I64


def make_deliveries(hand_over: HandOver, topic: str, term: int, store: Store, receipts: Receipts) -> Made:
    """One delivery per unit; `topic` is its name. Ids name where messages were born, receipts where they stand."""
    records = store.record_rows(hand_over.position, hand_over.units)
    home, random, asked_due_ms = records.position, records.random, records.asked_due_ms
    texts = receipts.make(
        position=hand_over.position,
        random=random,
        topic=topic_of(hand_over.subscription),
        subscription=number_of(hand_over.subscription),
        term=term,
        attempt=hand_over.attempt,
    )
    ids = encode_ids(store.group, home, random).tobytes().decode("ascii")
    deliveries = list(
        map(
            Delivery,
            [ids[at : at + ID_LENGTH] for at in range(0, len(ids), ID_LENGTH)],
            texts,
            hand_over.attempt.tolist(),
            repeat(term),
            repeat(hand_over.lease_end_ms),
            repeat(topic),
            hand_over.due_ms.tolist(),
            asked_due_ms.tolist(),
            records.created_ms.tolist(),
            repeat(hand_over.handed_over_ms),
            records.bodies,
        )
    )
    for row, record in records.rest.items():
        deliveries[row] = _completed(deliveries[row], record)
    return Made(deliveries, home, random, asked_due_ms)


def _completed(delivery: Delivery, record: Record) -> Delivery:
    """With what few messages have."""
    return msgspec.structs.replace(
        delivery,
        content_type=record.content_type,
        tags=record.tags,
        headers=record.headers or None,
        key=record.key.decode() if record.key else None,
        priority=record.priority,
        dead=dead_of(record),
    )
