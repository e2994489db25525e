"""The form in which deliveries go from the group to the front: columns of their records, and the bodies.

Consumers take a thousand messages at a time, so no object is made for each of them. Only a message with tags, headers,
a key or a content type has an object (MoreOfDelivery). The front makes ids and receipts.
"""

from __future__ import annotations

from api.contract.fields import MESSAGE
from node.handover.lease_book import HandOver
from node.message.view import dead_of
from node.port.pull_port import Deliveries, MoreOfDelivery
from storage.record.record import Record
from storage.record.record_rows import RecordRows
from storage.tables.topic import number_of, topic_of


def deliveries_of(hand_over: HandOver, records: RecordRows, term: int) -> Deliveries:
    """Make Deliveries of units of one topic and their records, in the order of their hand-over."""
    return Deliveries(
        topic=topic_of(hand_over.subscription),
        subscription=number_of(hand_over.subscription),
        term=term,
        handed_over_ms=hand_over.handed_over_ms,
        leased_until_ms=hand_over.lease_end_ms,
        position=hand_over.position.tobytes(),
        home=records.position.tobytes(),
        random=records.random.tobytes(),
        attempt=hand_over.attempt.tobytes(),
        due_ms=hand_over.due_ms.tobytes(),
        asked_due_ms=records.asked_due_ms.tobytes(),
        created_ms=records.created_ms.tobytes(),
        bodies=records.bodies,
        more={row: _more(record) for row, record in records.rest.items()},
    )


def _more(record: Record) -> MoreOfDelivery:
    return MoreOfDelivery(
        content_type=record.content_type,
        tags=record.tags,
        headers=record.headers or None,
        key=record.key.decode() if record.key else None,
        priority=record.priority,
        dead=dead_of(record),
        extension=MESSAGE.pulled(record.extension) or None,
    )
