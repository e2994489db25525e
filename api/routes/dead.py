"""The handlers of dead letters: list a topic's, and make them due again."""

from collections.abc import Callable
from typing import Any, Final

from api.contract.checker import read_flag, read_topic
from api.contract.object import Checker, Fields
from api.contract.resource.dead import LIST, REDRIVE
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.query_window import (
    PAGE,
    check_window,
    query_cursor,
    query_limit,
    query_time,
    read_query,
    read_tag,
    read_time,
)
from api.http.route import Route
from api.port.queries import DeadMessage, DeadQuery
from api.port.timestamp import render_time
from api.read.document import read_object
from api.routes.topic import topic_of

_PARAMETERS: Final[dict[str, Callable[[str], Any]]] = {
    "from": query_time,
    "to": query_time,
    "tag": read_tag,
    "limit": query_limit,
    "cursor": query_cursor,
}


async def dead(exchange: Exchange) -> Answer:
    """GET /v1/topics/{topic}/dead: return a page of dead letters."""
    topic = topic_of(exchange)
    values = read_query(exchange, _PARAMETERS)
    query = _query(topic, values, "")
    page = await exchange.port.dead(query, principal=exchange.principal)
    return exchange.document({"items": [_shape(each) for each in page.items], "next_cursor": page.next_cursor})


def _query(topic: str, values: dict[str, Any], pointer: str) -> DeadQuery:
    """Return the query. `pointer` is the place of `from`, if it is in the body."""
    check_window(values, pointer)
    return DeadQuery(
        topic=topic,
        from_ms=values.get("from"),
        to_ms=values.get("to"),
        tag=values.get("tag"),
        limit=values.get("limit", PAGE),
        cursor=values.get("cursor"),
    )


def _shape(one: DeadMessage) -> dict[str, Any]:
    return {
        "id": one.id,
        "due": render_time(one.due_ms),
        "asked_due": render_time(one.asked_due_ms),
        "died": render_time(one.died_ms),
        "reason": one.reason,
        "attempts": one.attempts,
        "tags": one.tags,
        "key": one.key,
    }


_FILTER: Final[dict[str, Checker]] = {
    "topic": read_topic,
    "from": read_time,
    "to": read_time,
    "tag": read_tag,
    "dry_run": read_flag,
}
_REDRIVE: Final = Fields(
    _FILTER, required={"topic": 'topic is required, such as "orders"'}, planned=("by", "state", "subscription")
)


async def redrive(exchange: Exchange) -> Answer:
    """POST /v1/messages/redrive: make dead messages of a topic due now. Their attempts are counted anew."""
    exchange.query(())
    exchange.require_type((JSON,))
    values = read_object(await exchange.read(), _REDRIVE)
    query = _query(values["topic"], values, "/from")
    result = await exchange.port.redrive(query, dry_run=values.get("dry_run", False), principal=exchange.principal)
    return exchange.document({"matched": result.matched, "changed": result.changed, "index": result.index})


ROUTES: Final = (
    Route("GET", "/v1/topics/{topic}/dead", dead, says=LIST),
    Route("POST", "/v1/messages/redrive", redrive, says=REDRIVE),
)
"""The routes of this file."""
