"""The handler of GET /v1/messages: list messages, page by page."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from api.contract.checker import Fault
from api.contract.resource.message_list import LIST
from api.http.answer import Answer
from api.http.exchange import Exchange
from api.http.query_window import PAGE, query_cursor, query_limit, read_query
from api.http.route import Route
from api.port.queries import ListQuery
from api.routes.count import WHICH, chosen, settling
from api.routes.message import show_message


def _query_body(text: str) -> bool:
    if text not in ("true", "false"):
        raise Fault("invalid-field", f'body is "true" or "false", got "{text[:40]}"')
    return text == "true"


_PARAMETERS: Final[dict[str, Callable[[str], Any]]] = {
    **WHICH,
    "limit": query_limit,
    "cursor": query_cursor,
    "body": _query_body,
}
_PLANNED: Final = ("order_key", "schedule", "transaction")


async def list_messages(exchange: Exchange) -> Answer:
    """GET /v1/messages: return a page of the open messages, or of those in the states of `state`."""
    values = read_query(exchange, _PARAMETERS, _PLANNED)
    with_body = values.get("body", True)
    query = ListQuery(**chosen(values), limit=values.get("limit", PAGE), cursor=values.get("cursor"), body=with_body)
    page = await exchange.port.messages(query, principal=exchange.principal)
    items = [show_message(view, body=with_body) for view in page.items]
    document = {"items": items, "next_cursor": page.next_cursor} | settling(page.settling)
    return await exchange.compressed(msgspec.json.encode(document))


ROUTES: Final = (Route("GET", "/v1/messages", list_messages, says=LIST),)
"""The routes of this file."""
