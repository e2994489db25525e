"""The handlers of a consumer: pull messages under a lease, ack them.

A pull's answer is the widest thing the server writes (1,000 messages with bodies), so each message is put together from
checked text and its body's own bytes, not through an object per message.
"""

from functools import lru_cache
from typing import Final

import msgspec

from api.answer import JSON, Answer
from api.document import Fields, read_object
from api.exchange import Exchange
from api.field import Fault, kind_of, read_count, read_duration, read_lease
from api.message import JSON as JSON_BODY
from api.port import ACK_MAX, PULL_MAX, Delivery, PullIn
from api.route import Route
from api.timestamp import render_time
from api.topic_route import topic_of

WAIT_MAX_MS: Final = 30_000
#: Receipts are opaque ASCII of at most 512 characters; what is longer was not made by us.
RECEIPT_CHARACTERS_MAX: Final = 512

_encode = msgspec.json.encode
#: Times that the messages of one answer have in common.
_shared_time = lru_cache(maxsize=64)(render_time)


def _read_wait(value: object) -> int:
    wait_ms = read_duration(value)
    if wait_ms > WAIT_MAX_MS:
        raise Fault("invalid-field", f"a pull waits 30s at most, got {wait_ms} ms; pull again after an empty answer")
    return wait_ms


def _read_receipts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise Fault("invalid-field", f"expected an array of receipts, got {kind_of(value)}")
    if not 1 <= len(value) <= ACK_MAX:
        raise Fault("invalid-field", f"expected 1 to {ACK_MAX} receipts, got {len(value)}")
    for place, receipt in enumerate(value):
        if type(receipt) is not str:
            raise Fault("invalid-field", f"expected a string, got {kind_of(receipt)}", f"/{place}")
    return value


_PULL: Final = Fields(
    {"max": lambda value: read_count(value, 1, PULL_MAX), "wait": _read_wait, "lease": read_lease},
    planned=("tags", "subscription"),
)
_ACK: Final = Fields(
    {"receipts": _read_receipts},
    required={"receipts": "receipts is required: the receipts of the pulled messages"},
    planned=("subscription",),
)


async def pull(exchange: Exchange) -> Answer:
    """POST /v1/topics/{topic}/pull: the messages handed over, none when nothing came within `wait`."""
    topic = topic_of(exchange)
    exchange.query(())
    values = read_object(await exchange.read_optional((JSON,)), _PULL)
    request = PullIn(topic, values.get("max", 100), values.get("wait", 0), values.get("lease"))
    deliveries = await exchange.port.pull(request, exchange.principal)
    return exchange.answer(200, b'{"messages":[' + b",".join([_delivery(each) for each in deliveries]) + b"]}")


def _delivery(one: Delivery) -> bytes:
    """One message of the answer. Ids, receipts and topics are of plain characters; the rest is escaped."""
    tags = _encode(one.tags).decode() if one.tags else "[]"
    headers = _encode(one.headers).decode() if one.headers else "{}"
    key = "null" if one.key is None else _encode(one.key).decode()
    order_key = "null" if one.order_key is None else _encode(one.order_key).decode()
    content_type = f'"{JSON_BODY}"' if not one.content_type else _encode(one.content_type).decode()
    due = render_time(one.due_ms)
    asked_due = due if one.asked_due_ms == one.due_ms else render_time(one.asked_due_ms)
    text = (
        f'{{"id":"{one.id}","receipt":"{one.receipt}","attempt":{one.attempt},"term":{one.term},'
        f'"leased_until":"{_shared_time(one.leased_until_ms)}","topic":"{one.topic}","tags":{tags},"headers":{headers},'
        f'"key":{key},"content_type":{content_type},"due":"{due}",'
        f'"asked_due":"{asked_due}","created":"{render_time(one.created_ms)}",'
        f'"handed_over":"{_shared_time(one.handed_over_ms)}",'
        f'"lateness_ms":{max(0, one.handed_over_ms - one.asked_due_ms)},"priority":{one.priority},'
        f'"order_key":{order_key},'
    ).encode()
    if one.content_type:
        return text + b'"body_base64":' + _encode(one.body) + b"}"
    return text + b'"body":' + one.body + b"}"


async def ack(exchange: Exchange) -> Answer:
    """POST /v1/topics/{topic}/ack: one result per receipt, in order."""
    topic = topic_of(exchange)
    exchange.query(())
    exchange.require_type((JSON,))
    receipts: list[str] = read_object(await exchange.read(), _ACK)["receipts"]
    ours = [receipt for receipt in receipts if _plausible(receipt)]
    found = iter(await exchange.port.ack(topic, ours, exchange.principal) if ours else ())
    results = [
        {"receipt": receipt, "result": next(found) if _plausible(receipt) else "invalid"} for receipt in receipts
    ]
    return exchange.document({"results": results})


def _plausible(receipt: str) -> bool:
    return len(receipt) <= RECEIPT_CHARACTERS_MAX and receipt.isascii()


ROUTES: Final = (
    Route("POST", "/v1/topics/{topic}/pull", pull, waits=True),
    Route("POST", "/v1/topics/{topic}/ack", ack),
)
"""What this file serves."""
