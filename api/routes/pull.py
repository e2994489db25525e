"""The handler of a pull: it delivers messages to a consumer under a lease.

Its answer is the largest of the server (1,000 messages with bodies). So it is joined from checked text and the bodies'
own bytes, with no object and no formatting per message. The pieces of all messages are one list, joined once: 0.55 us a
message, against 1.4 for an f-string of each and their join. Common parts of messages are made once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from api.contract.checker import Fault, read_count, read_duration, read_lease
from api.contract.fields import JSON as JSON_BODY
from api.contract.fields import MESSAGE
from api.contract.object import Fields
from api.contract.resource.pull import PULL
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.port import PULL_MAX, Delivery, PullIn
from api.port.timestamp import render_time
from api.read.document import read_object
from api.read.tag_filter import read_tag_filter
from api.routes.topic import topic_of

WAIT_MAX_MS: Final = 30_000


def _read_wait(value: object) -> int:
    wait_ms = read_duration(value)
    if wait_ms > WAIT_MAX_MS:
        raise Fault("invalid-field", f"a pull waits 30s at most, got {wait_ms} ms; pull again after an empty answer")
    return wait_ms


_PULL: Final = Fields(
    {
        "max": lambda value: read_count(value, 1, PULL_MAX),
        "wait": _read_wait,
        "lease": read_lease,
        "tags": read_tag_filter,
    },
    planned=("subscription",),
)


async def pull(exchange: Exchange) -> Answer:
    """POST /v1/topics/{topic}/pull: deliver messages, or none if none came within `wait`."""
    topic = topic_of(exchange)
    exchange.query(())
    values = read_object(await exchange.read_optional((JSON,)), _PULL)
    most, lease_ms = values.get("max", 100), values.get("lease")
    wait_ms = 0 if exchange.once else values.get("wait", 0)
    request = PullIn(topic, most, wait_ms, lease_ms, values.get("tags", ()), exchange.gone)
    return await exchange.compressed(render_pull(await exchange.port.pull(request, exchange.principal)))


#: The answer without messages.
NO_MESSAGES: Final = b'{"messages":[]}'
#: Members of a message that has none of these, which most messages are.
_PLAIN: Final = f',"tags":[],"headers":{{}},"key":null,"content_type":"{JSON_BODY}","priority":0,"order_key":null,'
#: Messages of one answer and the next share times, though a second of due messages has a thousand different ones.
_time = lru_cache(maxsize=16_384)(render_time)


def render_pull(deliveries: Sequence[Delivery]) -> bytes:
    """Render the answer to a pull. Ids, receipts and topics have plain characters; the rest is escaped."""
    if not deliveries:
        return NO_MESSAGES
    pieces: list[str] = []
    add = pieces.extend
    common: tuple[int, str, int, int] | None = None
    shared = ""
    handed_over_ms = 0
    before = '{"messages":[{"id":"'
    for one in deliveries:
        if common != (of_this := (one.term, one.topic, one.leased_until_ms, one.handed_over_ms)):
            common, shared, handed_over_ms = of_this, _shared(*of_this), one.handed_over_ms
        asked_due_ms = one.asked_due_ms
        due = asked_due = _time(one.due_ms)
        if asked_due_ms != one.due_ms:
            asked_due = _time(asked_due_ms)
        lateness_ms = handed_over_ms - asked_due_ms
        late = str(lateness_ms) if lateness_ms > 0 else "0"
        created = _time(one.created_ms)
        # fmt: off
        add((
            before, one.id, '","receipt":"', one.receipt, '","attempt":', str(one.attempt), shared, due,
            '","asked_due":"', asked_due, '","created":"', created, '","lateness_ms":', late, _rest(one), _body(one),
        ))
        # fmt: on
        before = '},{"id":"'
    pieces.append("}]}")
    return "".join(pieces).encode()


def _shared(term: int, topic: str, leased_until_ms: int, handed_over_ms: int) -> str:
    """Return the members that all messages of one delivery share."""
    return (
        f',"term":{term},"topic":"{topic}","leased_until":"{_time(leased_until_ms)}",'
        f'"handed_over":"{_time(handed_over_ms)}","due":"'
    )


def _rest(one: Delivery) -> str:
    """Return the members that few messages have."""
    more = one.tags or one.headers or one.content_type or one.priority or one.dead or one.extension
    if not more and one.key is one.order_key is None:
        return _PLAIN
    also = f',"dead":{_text(one.dead)}' if one.dead else ""
    for name, kept in (one.extension or {}).items():
        also += f',"{name}":{_text(MESSAGE.rows[name].kind.show(kept))}'
    return (
        f',"tags":{_tags(tuple(one.tags))},"headers":{_text(one.headers) if one.headers else "{}"},'
        f'"key":{_text(one.key)},"content_type":{_text(one.content_type or JSON_BODY)},"priority":{one.priority},'
        f'"order_key":{_text(one.order_key)}{also},'
    )


def _text(value: Any) -> str:
    return "null" if value is None else msgspec.json.encode(value).decode()


@lru_cache(maxsize=4096)
def _tags(tags: tuple[str, ...]) -> str:
    return _text(tags)


def _body(one: Delivery) -> str:
    if one.content_type:
        return '"body_base64":' + msgspec.json.encode(one.body).decode()
    return '"body":' + one.body.decode()


ROUTES: Final = (Route("POST", "/v1/topics/{topic}/pull", pull, waits=True, nothing=NO_MESSAGES, says=PULL),)
"""The routes of this file."""
