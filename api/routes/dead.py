"""The handler of dead letters: list a topic's."""

from collections.abc import Callable
from typing import Any, Final

from api.contract.resource.dead import LIST
from api.http.answer import Answer
from api.http.exchange import Exchange
from api.http.query_window import (
    PAGE,
    check_window,
    query_cursor,
    query_limit,
    query_time,
    read_query,
    read_tag,
)
from api.http.route import Route
from api.port.queries import DeadMessage, DeadQuery
from api.port.timestamp import render_time
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
    check_window(values)
    query = DeadQuery(
        topic=topic,
        from_ms=values.get("from"),
        to_ms=values.get("to"),
        tag=values.get("tag"),
        limit=values.get("limit", PAGE),
        cursor=values.get("cursor"),
    )
    page = await exchange.port.dead(query, principal=exchange.principal)
    return exchange.document({"items": [_shape(each) for each in page.items], "next_cursor": page.next_cursor})


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


ROUTES: Final = (Route("GET", "/v1/topics/{topic}/dead", dead, says=LIST),)
"""The routes of this file."""
