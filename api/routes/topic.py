"""The handlers of /v1/topics: replace, merge, show, list and delete a topic's settings."""

from typing import Any, Final

from msgspec import UNSET

from api.contract.checker import Fault, read_choice, read_flag, read_lease, read_topic
from api.contract.object import Fields, or_null
from api.contract.resource.topic import DELETE, LIST, MERGE, REPLACE, SHOW
from api.contract.retry import read_topic_retry, show_retry
from api.contract.target import read_topic_target, show_target
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.query_window import PAGE, query_limit, read_query
from api.http.route import Route
from api.port.duration import render_duration
from api.port.port import TOPIC_DEFAULTS, Limits, TopicChange, TopicView
from api.port.problem import FieldFault, Problem
from api.port.timestamp import render_time
from api.read.document import read_object


def _fields(limits: Limits, *, whole: bool) -> Fields:
    """Return the settings of a topic that a request may send. `whole` is for a PUT. Null takes a setting away."""
    return Fields(
        {
            "mode": lambda value: read_choice(value, ("pull", "push")),
            "target": or_null(lambda value: read_topic_target(value, limits, whole=whole)),
            "retry": or_null(lambda value: read_topic_retry(value, whole=whole)),
            "lease": read_lease,
            "handover": lambda value: read_choice(value, ("fast", "strict")),
            "dead_letter": or_null(read_topic),
            "paused": read_flag,
        },
        planned=("rate",),
        read_only=("topic", "revision", "created", "counts", "held"),
    )


def topic_of(exchange: Exchange) -> str:
    """Return the checked topic of the path."""
    try:
        return read_topic(exchange.params["topic"])
    except Fault as fault:
        raise Problem("invalid-field", fault.detail, errors=[FieldFault("", fault.detail, parameter="topic")]) from None


async def replace(exchange: Exchange) -> Answer:
    """PUT: set the settings that were sent, and all others to their defaults. Makes the topic if it does not exist."""
    name = topic_of(exchange)
    values = await _settings(exchange, name, whole=True)
    change = TopicChange(
        mode=values.get("mode", TOPIC_DEFAULTS.mode),
        lease_ms=values.get("lease", TOPIC_DEFAULTS.lease_ms),
        handover=values.get("handover", TOPIC_DEFAULTS.handover),
        paused=values.get("paused", TOPIC_DEFAULTS.paused),
        target=values.get("target"),
        retry=values.get("retry"),
        dead_letter=values.get("dead_letter"),
    )
    return await _put(exchange, name, change, create=True)


async def merge(exchange: Exchange) -> Answer:
    """PATCH: set the settings that were sent. The topic has to exist."""
    name = topic_of(exchange)
    values = await _settings(exchange, name, whole=False)
    change = TopicChange(
        mode=values.get("mode"),
        lease_ms=values.get("lease"),
        handover=values.get("handover"),
        paused=values.get("paused"),
        target=values.get("target", UNSET),
        retry=values.get("retry", UNSET),
        dead_letter=values.get("dead_letter", UNSET),
    )
    return await _put(exchange, name, change, create=False)


async def _settings(exchange: Exchange, name: str, *, whole: bool) -> dict[str, Any]:
    exchange.query(())
    data = await exchange.read_optional((JSON,))
    values = read_object(data, _fields(exchange.port.limits, whole=whole))
    if values.get("dead_letter") == name:
        detail = "a topic cannot be its own dead-letter topic; name another one, or null for none"
        raise Problem("invalid-field", f"/dead_letter: {detail}", errors=[FieldFault("/dead_letter", detail)])
    return values


async def _put(exchange: Exchange, name: str, change: TopicChange, *, create: bool) -> Answer:
    if_match, port = exchange.if_match(), exchange.keyed(await exchange.read())
    view = await port.put_topic(name, change, create=create, if_match=if_match, principal=exchange.principal)
    return _one(exchange, view)


async def show(exchange: Exchange) -> Answer:
    """GET: return a topic."""
    exchange.query(())
    return _one(exchange, await exchange.port.topic(topic_of(exchange), principal=exchange.principal))


async def show_all(exchange: Exchange) -> Answer:
    """GET: return a page of topics, with counts by state. `counts=false` leaves out the counts and their pass over all
    messages."""
    values = read_query(exchange, {"counts": _query_flag, "limit": query_limit, "cursor": read_topic})
    limit, after = values.get("limit", PAGE), values.get("cursor", "")
    counts = values.get("counts", True)
    views = await exchange.port.topics(after, limit + 1, counts=counts, principal=exchange.principal)
    page = views[:limit]
    cursor = page[-1].name if len(views) > limit else None
    return exchange.document({"items": [_shape(view) for view in page], "next_cursor": cursor})


def _query_flag(text: str) -> bool:
    return read_choice(text, ("true", "false")) == "true"


async def delete(exchange: Exchange) -> Answer:
    """DELETE: remove a topic whose messages have all ended."""
    name = topic_of(exchange)
    exchange.query((), ("pending",))
    await exchange.keyed().delete_topic(name, if_match=exchange.if_match(), principal=exchange.principal)
    return exchange.document({"topic": name, "result": "deleted"})


def _one(exchange: Exchange, view: TopicView) -> Answer:
    return exchange.document(_shape(view), headers={"ETag": f'"{view.revision}"'})


def _shape(view: TopicView) -> dict[str, Any]:
    target = view.target
    shape: dict[str, Any] = {
        "topic": view.name,
        "mode": view.mode,
        "target": None if target is None else show_target(target) | {"secret_set": target.secret is not None},
        "retry": show_retry(view.retry),
        "lease": render_duration(view.lease_ms),
        "handover": view.handover,
        "dead_letter": view.dead_letter,
        "paused": view.paused,
        "revision": view.revision,
        "created": render_time(view.created_ms),
    }
    if view.counts is not None:
        shape["counts"] = dict(view.counts)
    if view.held:
        shape["held"] = {"operation": view.held}
    return shape


ROUTES: Final = (
    Route("GET", "/v1/topics", show_all, says=LIST),
    Route("PUT", "/v1/topics/{topic}", replace, keyed=True, says=REPLACE),
    Route("PATCH", "/v1/topics/{topic}", merge, keyed=True, says=MERGE),
    Route("GET", "/v1/topics/{topic}", show, says=SHOW),
    Route("DELETE", "/v1/topics/{topic}", delete, keyed=True, says=DELETE),
)
"""The routes of this file."""
