"""The handlers of receipts: ack, nack, extend.

The answer has one result per receipt, in order, and is never a 409: one old receipt among a thousand must not make the
others fail. Text that cannot be a receipt (too long, not ASCII) is `invalid` in its place and never reaches the port.

A consumer that keeps up sends a thousand receipts a request. So the plain case has a path of its own: one line of ASCII
without escapes and without faults. One typed decode reads it and one join answers it, 0.1 us a receipt.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from api.contract.checker import Fault, kind_of, read_delay, read_flag, read_lease
from api.contract.object import Fields
from api.contract.resource.receipt import ACK, EXTEND, NACK
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.port import ACK_MAX, Limits
from api.read.document import read_object
from api.routes.topic import topic_of

#: Receipts are opaque ASCII of at most 512 characters. A longer one is not ours.
RECEIPT_CHARACTERS_MAX: Final = 512

Results = Awaitable[Sequence[str]]


def _read_receipts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise Fault("invalid-field", f"expected an array of receipts, got {kind_of(value)}")
    if not 1 <= len(value) <= ACK_MAX:
        raise Fault("invalid-field", f"expected 1 to {ACK_MAX} receipts, got {len(value)}")
    for place, receipt in enumerate(value):
        if type(receipt) is not str:
            raise Fault("invalid-field", f"expected a string, got {kind_of(receipt)}", f"/{place}")
    return value


def _fields(**also: Callable[[Any], Any]) -> Fields:
    return Fields(
        {"receipts": _read_receipts, **also},
        required={"receipts": "receipts is required: the receipts of the pulled messages"},
        planned=("subscription",),
    )


_ACK: Final = _fields()
_EXTEND: Final = _fields(lease=read_lease)


def _nack_fields(limits: Limits) -> Fields:
    return _fields(delay=lambda value: read_delay(value, limits.max_delay_ms), counted=read_flag)


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The most common request: receipts only."""

    receipts: list[str]


_PLAIN: Final = msgspec.json.Decoder(_Plain)


async def ack(exchange: Exchange) -> Answer:
    """POST /v1/topics/{topic}/ack."""
    topic, port, principal = topic_of(exchange), exchange.port, exchange.principal
    return await _settle(exchange, _ACK, lambda receipts, _: port.ack(topic, receipts, principal))


async def nack(exchange: Exchange) -> Answer:
    """POST /v1/topics/{topic}/nack."""
    topic, port, principal = topic_of(exchange), exchange.port, exchange.principal
    return await _settle(
        exchange,
        _nack_fields(port.limits),
        lambda receipts, sent: port.nack(
            topic, receipts, delay_ms=sent.get("delay"), counted=sent.get("counted", True), principal=principal
        ),
    )


async def extend(exchange: Exchange) -> Answer:
    """POST /v1/topics/{topic}/extend."""
    topic, port, principal = topic_of(exchange), exchange.port, exchange.principal
    return await _settle(
        exchange,
        _EXTEND,
        lambda receipts, sent: port.extend(topic, receipts, lease_ms=sent.get("lease"), principal=principal),
    )


async def _settle(exchange: Exchange, fields: Fields, ask: Callable[[list[str], dict[str, Any]], Results]) -> Answer:
    """Read the request, give the port all receipts that are ASCII and not too long, and answer with a result for every
    receipt."""
    exchange.query(())
    exchange.require_type((JSON,))
    data = await exchange.read()
    receipts = _read_plain(data)
    if receipts is not None:
        return exchange.answer(200, render_results(receipts, await ask(receipts, {})))
    sent = read_object(data, fields)
    receipts = sent["receipts"]
    ours = [receipt for receipt in receipts if _plausible(receipt)]
    found = iter(await ask(ours, sent) if ours else ())
    results = [
        {"receipt": receipt, "result": next(found) if _plausible(receipt) else "invalid"} for receipt in receipts
    ]
    return exchange.document({"results": results})


def _read_plain(data: bytes) -> list[str] | None:
    """Return the receipts of a request that has only `receipts`, in plain ASCII. None for all other requests, which the
    thorough reader takes."""
    if not data.isascii() or b"\\" in data:  # without these, receipts in the answer need no escaping either
        return None
    try:
        receipts = _PLAIN.decode(data).receipts
    except (msgspec.DecodeError, RecursionError):
        return None
    if not 1 <= len(receipts) <= ACK_MAX or max(map(len, receipts)) > RECEIPT_CHARACTERS_MAX:
        return None
    return receipts


def render_results(receipts: Sequence[str], results: Sequence[str]) -> bytes:
    """Render the answer for receipts that need no escaping. Nearly always all have the same result, and one join writes
    it."""
    first = results[0]
    if results.count(first) == len(receipts):
        between = f'","result":"{first}"}},{{"receipt":"'
        return f'{{"results":[{{"receipt":"{between.join(receipts)}","result":"{first}"}}]}}'.encode()
    lines = [
        f'{{"receipt":"{receipt}","result":"{result}"}}' for receipt, result in zip(receipts, results, strict=True)
    ]
    return f'{{"results":[{",".join(lines)}]}}'.encode()


def _plausible(receipt: str) -> bool:
    return len(receipt) <= RECEIPT_CHARACTERS_MAX and receipt.isascii()


ROUTES: Final = (
    Route("POST", "/v1/topics/{topic}/ack", ack, says=ACK),
    Route("POST", "/v1/topics/{topic}/nack", nack, says=NACK),
    Route("POST", "/v1/topics/{topic}/extend", extend, says=EXTEND),
)
"""The routes of this file."""
