"""What a consumer gets for units that were handed over: their records, ids and receipts put together."""

from __future__ import annotations

import numpy as np

from api.port import Delivery
from node.lease_book import HandOver
from node.queues import GROUP
from node.receipt import Receipt, Receipts
from storage.message_id import encode_ids
from storage.record import Record
from storage.store import Store


def make_deliveries(hand_over: HandOver, topic: str, term: int, store: Store, receipts: Receipts) -> list[Delivery]:
    """One delivery per unit, in the order of the hand-over; `topic` is its name. Ids and receipts are made for all at
    once."""
    records = store.records(hand_over.position)
    random = np.fromiter((record.random for record in records), np.uint64, len(records))
    ids = encode_ids(GROUP, hand_over.position, random).astype("U26").tolist()
    attempts = hand_over.attempt.tolist()
    texts = receipts.make_all(
        Receipt(record.position, record.random, record.topic, 0, term, attempt)
        for record, attempt in zip(records, attempts, strict=True)
    )
    rows = zip(ids, texts, records, attempts, hand_over.due_ms.tolist(), strict=True)
    return [_delivery(hand_over, topic, term, *row) for row in rows]


def _delivery(
    hand_over: HandOver, topic: str, term: int, id: str, receipt: str, record: Record, attempt: int, due_ms: int
) -> Delivery:
    return Delivery(
        id=id,
        receipt=receipt,
        attempt=attempt,
        term=term,
        leased_until_ms=hand_over.lease_end_ms,
        topic=topic,
        due_ms=due_ms,
        asked_due_ms=record.asked_due_ms,
        created_ms=record.created_ms,
        handed_over_ms=hand_over.handed_over_ms,
        body=record.body,
        content_type=record.content_type,
        tags=record.tags,
        headers=record.headers or None,
        key=record.key.decode() if record.key else None,
        priority=record.priority,
    )
