"""The kinds of messages: how a client makes each. A kind returns the ids of the messages that shall be delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.semantics.real_nodes import RealNodes


async def _plain(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    return [(await nodes.done("POST /v1/messages", _message(topic, delay)))["id"]]


async def _key(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    """Sent twice: the second one gets the first answer."""
    message = _message(topic, delay) | {"key": "k"}
    first = await nodes.done("POST /v1/messages", message)
    again = await nodes.done("POST /v1/messages", message)
    assert (again["outcome"], again["id"]) == ("replayed", first["id"])
    return [first["id"]]


async def _replaced(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    """The one that replaced the holder of its key."""
    message = _message(topic, delay) | {"key": "k", "on_conflict": "replace"}
    first = await nodes.done("POST /v1/messages", message)
    second = await nodes.done("POST /v1/messages", message)
    assert (second["outcome"], second["previous"]["id"]) == ("replaced", first["id"])
    return [second["id"]]


async def _extended(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    """The holder of a key, extended."""
    message = _message(topic, delay) | {"key": "k", "on_conflict": "extend"}
    first = await nodes.done("POST /v1/messages", message)
    second = await nodes.done("POST /v1/messages", message)
    assert (second["outcome"], second["id"]) == ("extended", first["id"])
    return [first["id"]]


async def _batch(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    lines = [_message(topic, delay) | {"body": {"n": row}} for row in range(3)]
    said = await nodes.ask("POST /v1/messages/batch", lines)
    return [line["id"] for line in said.lines]


async def _atomic(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    """Sent twice: the second one gets the same ids."""
    lines = [_message(topic, delay) | {"key": f"k{row}"} for row in range(3)]
    first, again = [await nodes.ask("POST /v1/messages/batch?atomic=true", lines) for _ in range(2)]
    assert (first.status, again.status) == (201, 201)
    assert [line["id"] for line in again.lines] == [line["id"] for line in first.lines]
    return [line["id"] for line in first.lines]


async def _once(nodes: RealNodes, topic: str, delay: str) -> list[str]:
    """Sent twice under one `Idempotency-Key`."""
    first, again = [
        await nodes.ask("POST /v1/messages", _message(topic, delay), Idempotency_Key=topic) for _ in range(2)
    ]
    assert (first.status, first.body) == (again.status, again.body)
    assert again.headers["Idempotency-Replayed"] == "true"
    return [first.document["id"]]


Kind = Callable[[RealNodes, str, str], Awaitable[list[str]]]
KINDS: Final[dict[str, Kind]] = {
    "plain": _plain,
    "key": _key,
    "replaced": _replaced,
    "extended": _extended,
    "batch": _batch,
    "atomic": _atomic,
    "once": _once,
}


def _message(topic: str, delay: str) -> dict[str, Any]:
    return {"topic": topic, "body": {"n": 1}, "delay": delay}
