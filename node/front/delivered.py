"""Makes deliveries for the consumer: one Delivery a message, from ids, receipts and records."""

from __future__ import annotations

from itertools import repeat

import msgspec
import numpy as np

from api.port.port import Delivery
from node.port.pull_port import Deliveries, MoreOfDelivery
from node.port.receipt import Receipts
from storage.format.message_id import ID_LENGTH, encode_ids


def make_deliveries(handed: Deliveries, group: int, topic: str, receipts: Receipts) -> list[Delivery]:
    """Make one Delivery for each message, in the order of their hand-over. Its id names where the message was born, its
    receipt where the message stands."""
    position, home, random = (np.frombuffer(each, np.uint64) for each in (handed.position, handed.home, handed.random))
    attempt = np.frombuffer(handed.attempt, np.uint16)
    due_ms, asked_due_ms, created_ms = (
        np.frombuffer(each, np.int64).tolist() for each in (handed.due_ms, handed.asked_due_ms, handed.created_ms)
    )
    texts = receipts.make(
        position=position,
        random=random,
        topic=handed.topic,
        subscription=handed.subscription,
        term=handed.term,
        attempt=attempt,
    )
    ids = encode_ids(group, home, random).tobytes().decode("ascii")
    deliveries = list(
        map(
            Delivery,
            [ids[at : at + ID_LENGTH] for at in range(0, len(ids), ID_LENGTH)],
            texts,
            attempt.tolist(),
            repeat(handed.term),
            repeat(handed.leased_until_ms),
            repeat(topic),
            due_ms,
            asked_due_ms,
            created_ms,
            repeat(handed.handed_over_ms),
            handed.bodies,
        )
    )
    for row, more in handed.more.items():
        deliveries[row] = _completed(deliveries[row], more)
    return deliveries


def _completed(delivery: Delivery, more: MoreOfDelivery) -> Delivery:
    """Add the fields that few messages have."""
    return msgspec.structs.replace(
        delivery,
        content_type=more.content_type,
        tags=more.tags,
        headers=more.headers,
        key=more.key,
        priority=more.priority,
        order_key=more.order_key,
        dead=more.dead,
        extension=more.extension,
    )
