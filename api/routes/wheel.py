"""The handler of GET /v1/wheel: an hour of the wheel, second by second."""

from collections.abc import Callable
from typing import Any, Final

from api.contract.checker import read_topic_text
from api.contract.resource.wheel import WHEEL
from api.http.answer import Answer
from api.http.exchange import Exchange
from api.http.query_window import query_time, read_query
from api.http.route import Route
from api.port.queries import WheelQuery
from api.port.timestamp import render_time

_PARAMETERS: Final[dict[str, Callable[[str], Any]]] = {"hour": query_time, "topic": read_topic_text}


async def wheel(exchange: Exchange) -> Answer:
    """GET /v1/wheel: say which seconds of an hour have messages, and how many of them are open."""
    values = read_query(exchange, _PARAMETERS)
    found = await exchange.port.wheel(WheelQuery(values.get("hour"), values.get("topic")), principal=exchange.principal)
    seconds = [
        {"second": render_time(each.second * 1000), "open": each.open_units, "units": each.units}
        for each in found.seconds
    ]
    return exchange.document(
        {"hour": render_time(found.hour_ms), "tick": render_time(found.tick * 1000), "seconds": seconds}
    )


ROUTES: Final = (Route("GET", "/v1/wheel", wheel, says=WHEEL),)
"""The routes of this file."""
