"""The handlers of a planned change of leader: the drain of a node, and messages between nodes meanwhile.

The node that is asked answers them all itself, also while it drains. Only that node knows its own state. Outcomes of
pushes must also reach a leader that drains and only waits for them. Only nodes call `outcomes`, `takeover` and `waits`.
The outcome of a delivery comes with its receipt, which proves it. The deliveries that `takeover` names have no
receipts, because they are only counted.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from api.contract.checker import read_count
from api.contract.object import Fields
from api.contract.resource.leadership import DRAIN, UNDRAIN
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.leadership import OUTCOMES_MAX, TOLD_MAX, DrainView, OpenHandOvers, PushOutcome
from api.port.problem import FieldFault, Problem
from api.read.document import read_object
from api.routes.cluster import read_node


class _Outcomes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    outcomes: list[PushOutcome]


CODE_MAX: Final = 0xFFFF
INT63_MAX: Final = (1 << 63) - 1
_OUTCOMES: Final = msgspec.json.Decoder(_Outcomes)
_TOLD: Final = msgspec.json.Decoder(OpenHandOvers)
_DRAIN: Final = Fields({"node": read_node})
_WAITS: Final = Fields(
    {"node": read_node, "wait": lambda value: read_count(value, 1, INT63_MAX)},
    required={"node": "node is required: who passed the waits on"},
)


async def drain(exchange: Exchange) -> Answer:
    """POST /v1/node/drain: make this node lead nothing and take no requests. Answers when its pushes are off the wire.
    `node`, if given, must be this one, because an address in front of several nodes may reach another."""
    return _drained(exchange, await exchange.port.drain(await _meant(exchange), principal=exchange.principal))


async def undrain(exchange: Exchange) -> Answer:
    """DELETE /v1/node/drain: let this node serve again. It may lead."""
    return _drained(exchange, await exchange.port.undrain(await _meant(exchange), principal=exchange.principal))


async def _meant(exchange: Exchange) -> str | None:
    exchange.query(())
    node: str | None = read_object(await exchange.read_optional((JSON,)), _DRAIN).get("node")
    return node


def _drained(exchange: Exchange, view: DrainView) -> Answer:
    return exchange.document(
        {
            "node": view.node,
            "draining": view.draining,
            "led": view.led,
            "leader": view.leader,
            "pushes": view.pushes,
        }
    )


async def outcomes(exchange: Exchange) -> Answer:
    """POST /v1/cluster/outcomes: take the outcomes of pushes that a former leader had on the wire."""
    exchange.query(())
    exchange.require_type((JSON,))
    told = _decode(_OUTCOMES, await exchange.read()).outcomes
    if not 1 <= len(told) <= OUTCOMES_MAX:
        raise _invalid("/outcomes", f"expected 1 to {OUTCOMES_MAX} outcomes, got {len(told)}")
    for row, outcome in enumerate(told):
        if not 0 < outcome.code <= CODE_MAX:
            raise _invalid(f"/outcomes/{row}/code", f"a code is 1 to {CODE_MAX}, got {outcome.code}")
        if not 0 <= (outcome.retry_after_ms or 0) <= INT63_MAX:
            raise _invalid(f"/outcomes/{row}/retry_after_ms", "a wait is null or 0 to 2^63 - 1 milliseconds")
    results: Sequence[str] = await exchange.port.outcomes(told, principal=exchange.principal)
    rows = zip(told, results, strict=True)
    return exchange.document({"results": [{"receipt": each.receipt, "result": result} for each, result in rows]})


async def takeover(exchange: Exchange) -> Answer:
    """POST /v1/cluster/takeover: return the new leader's account of its takeover. The leader before it sends this
    request."""
    exchange.query(())
    exchange.require_type((JSON,))
    told = _decode(_TOLD, await exchange.read())
    if len(told.positions) % 8 or len(told.positions) != len(told.lease_ends_ms):
        sizes = f"{len(told.positions)} and {len(told.lease_ends_ms)} bytes"
        raise _invalid("/positions", f"positions and lease_ends_ms hold 8 bytes a row each, got {sizes}")
    if len(told.positions) > 8 * TOLD_MAX:
        raise _invalid("/positions", f"at most {TOLD_MAX} rows, got {len(told.positions) // 8}")
    view = await exchange.port.takeover(told, principal=exchange.principal)
    return exchange.document(
        {
            "node": view.node,
            "term": view.term,
            "ready_us": view.ready_us,
            "in_flight_carried": view.in_flight_carried,
            "repeated": view.repeated,
        }
    )


async def waits(exchange: Exchange) -> Answer:
    """POST /v1/cluster/waits: end waits that a node passed on to this leader, and answer them. A node sends it before
    it stops and closes the connections of these waits. With `wait` it names one wait, whose client has gone."""
    exchange.query(())
    named = read_object(await exchange.read(), _WAITS)
    return exchange.document({"ended": exchange.server.end_waits(named["node"], named.get("wait"))})


def _decode(decoder: Any, data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as wrong:
        raise _invalid("", str(wrong)) from None
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise Problem("malformed-json", f"the body cannot be read: {wrong}") from None


def _invalid(pointer: str, detail: str) -> Problem:
    return Problem("invalid-field", detail, errors=[FieldFault(pointer, detail)])


ROUTES: Final = (
    Route("POST", "/v1/node/drain", drain, leader=False, health=True, says=DRAIN),
    Route("DELETE", "/v1/node/drain", undrain, leader=False, health=True, says=UNDRAIN),
    Route("POST", "/v1/cluster/outcomes", outcomes, leader=False, batch=True, health=True, internal=True),
    Route("POST", "/v1/cluster/takeover", takeover, leader=False, health=True, internal=True),
    Route("POST", "/v1/cluster/waits", waits, leader=False, health=True, internal=True),
)
"""The routes of this file."""
