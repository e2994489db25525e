"""The handlers of /v1/messages/count and /v1/messages/histogram: how many messages there are, and when they are due."""

from collections.abc import Callable
from typing import Any, Final

from api.contract.checker import Fault, read_topic_text
from api.contract.resource.count import COUNT, HISTOGRAM
from api.http.answer import Answer
from api.http.exchange import Exchange
from api.http.query_window import WHOLE, check_window, query_time, read_query, read_tag
from api.http.route import Route
from api.port.duration import BadDuration, parse_duration, render_duration
from api.port.problem import FieldFault, Problem
from api.port.queries import HISTOGRAM_BUCKETS_MAX, OPEN_STATES, CountQuery
from api.port.timestamp import render_time
from storage.format.states import STANDINGS

STEP_MAX_MS: Final = 3650 * 86_400_000

_PLANNED_STATES: Final = ("half",)


def _query_states(text: str) -> frozenset[str]:
    names = text.split(",")
    for name in names:
        if name in STANDINGS:
            continue
        if name in _PLANNED_STATES:
            raise Fault("not-supported-yet", f'"{name}" is not supported yet; supported: {", ".join(STANDINGS)}')
        raise Fault("invalid-field", f'states are {", ".join(STANDINGS)}, separated by commas; got "{name[:40]}"')
    return frozenset(names)


def _query_step(text: str) -> int:
    try:
        step_ms = parse_duration(int(text) if WHOLE.fullmatch(text) else text)
    except BadDuration as error:
        raise Fault("invalid-field", str(error)) from None
    if not 1 <= step_ms <= STEP_MAX_MS:
        raise Fault("invalid-field", f"a step is 1ms to 3650d, got {render_duration(step_ms)}")
    return step_ms


WHICH: Final[dict[str, Callable[[str], Any]]] = {
    "topic": read_topic_text,
    "from": query_time,
    "to": query_time,
    "tag": read_tag,
    "state": _query_states,
}
"""The parameters that choose messages."""
_WITH_STEP: Final = {**WHICH, "step": _query_step}


def chosen(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a CountQuery that the parameters of WHICH give. Raises `invalid-field`."""
    check_window(values)
    return {
        "topic": values.get("topic"),
        "from_ms": values.get("from"),
        "to_ms": values.get("to"),
        "tag": values.get("tag"),
        "states": tuple(sorted(values.get("state", OPEN_STATES))),
    }


async def count(exchange: Exchange) -> Answer:
    """GET /v1/messages/count: count the open messages, or those in the states of `state`."""
    query = CountQuery(**chosen(read_query(exchange, WHICH)))
    found = await exchange.port.count(query, principal=exchange.principal)
    return exchange.document({"count": found.count} | settling(found.settling))


async def histogram(exchange: Exchange) -> Answer:
    """GET /v1/messages/histogram: count messages by due time, in buckets of `step`, or of a step that fits."""
    values = read_query(exchange, _WITH_STEP)
    query = CountQuery(**chosen(values))
    step_ms = values.get("step")
    if step_ms is not None and query.from_ms is not None and query.to_ms is not None:
        _check_step(query.to_ms - query.from_ms, step_ms)
    found = await exchange.port.histogram(query, step_ms=step_ms, principal=exchange.principal)
    buckets = [{"from": render_time(each.from_ms), "count": each.count} for each in found.buckets]
    return exchange.document({"step": render_duration(found.step_ms), "buckets": buckets} | settling(found.settling))


def settling(count: int) -> dict[str, int]:
    """The field `settling` of an answer, which is left out if it is 0."""
    return {"settling": count} if count else {}


def _check_step(window_ms: int, step_ms: int) -> None:
    """Refuse a window of too many steps before anything is counted."""
    buckets = -(-window_ms // step_ms)
    if buckets > HISTOGRAM_BUCKETS_MAX:
        least_ms = -(-window_ms // HISTOGRAM_BUCKETS_MAX)
        detail = (
            f"the window takes {buckets} buckets of {render_duration(step_ms)}, at most {HISTOGRAM_BUCKETS_MAX} are "
            f"given; take a step of {least_ms}ms or more, or a narrower window"
        )
        raise Problem("invalid-field", f"step: {detail}", errors=[FieldFault("", detail, parameter="step")])


ROUTES: Final = (
    Route("GET", "/v1/messages/count", count, says=COUNT),
    Route("GET", "/v1/messages/histogram", histogram, says=HISTOGRAM),
)
"""The routes of this file."""
