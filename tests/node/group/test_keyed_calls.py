"""Requests under an `Idempotency-Key` through HTTP: sent again they have no second effect, and the same answer."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import aiohttp
import pytest

from api.port.port import ANONYMOUS, MessageIn, TopicChange
from api.port.queries import CountQuery
from node.node import Node
from node.operation import view
from storage.tables.registry import OPERATIONS
from tests.node.message.everything import put_topic, schedule
from tests.node.operation.test_cancel_many import ready
from tests.node.restarting import Nodes, play
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until

MESSAGE = {"topic": "orders", "body": 1, "delay": "1h"}


class Said(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    replayed: bool
    headers: dict[str, str]

    @property
    def document(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    def same(self, other: "Said") -> bool:
        """True if status, body and the headers about the message are equal byte for byte."""
        names = ("Location", "ETag", "Content-Type")
        alike = all(self.headers.get(name) == other.headers.get(name) for name in names)
        return alike and (self.status, self.body) == (other.status, other.body)


async def ask(
    node: Node, method: str, path: str, body: Any = None, key: str | None = "k", if_match: str | None = None
) -> Said:
    """Send a request to this node."""
    headers = {} if key is None else {"Idempotency-Key": key}
    if if_match is not None:
        headers["If-Match"] = if_match
    url = f"http://{node.config.http.listen}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, json=body, headers=headers) as answer,
    ):
        told = answer.headers
        return Said(answer.status, await answer.read(), told.get("Idempotency-Replayed") == "true", dict(told))


async def count(node: Node, topic: str = "orders") -> int:
    """The open messages of a topic."""
    return (await node.front.count(CountQuery(topic=topic), principal=ANONYMOUS)).count


async def twice(nodes: list[Node], method: str, path: str, body: Any = None, key: str = "k", **more: Any) -> Said:
    """Send a request to the first node, and again to each. The answers are equal, and all but the first say so."""
    first = await ask(nodes[0], method, path, body, key, **more)
    assert (first.status < 300, first.replayed) == (True, False), first
    for node in nodes:
        again = await ask(node, method, path, body, key, **more)
        assert (again.replayed, again.same(first)) == (True, True), (first, again)
    return first


def test_each_route_at_each_node(tmp_path: Path) -> None:
    """Schedule, replace, extend, move, cancel, a topic put, changed and deleted, an operation: each has one effect."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await until(lambda: all(node.group.machine.level >= 4 for node in nodes), what="level 4")
        ways = [node for node in nodes if node is not leader] + [leader]
        plain = await twice(ways, "POST", "/v1/messages", MESSAGE, "plain")
        assert await count(leader) == 1
        keyed = MESSAGE | {"key": "one"}
        for number, rule in enumerate(("replace", "replace", "extend")):
            said = await twice(ways, "POST", "/v1/messages", keyed | {"on_conflict": rule}, f"{rule} {number}")
        assert (said.status, said.document["outcome"]) == (200, "extended")
        assert await count(leader) == 2
        path = f"/v1/messages/{plain.document['id']}"
        moved = await twice(ways, "PATCH", path, {"delay": "2h"}, "move", if_match='"1"')
        assert (moved.document["revision"], moved.document["topic"]) == (2, "orders")
        await twice(ways, "DELETE", path, None, "cancel")
        assert await count(leader) == 1
        await twice(ways, "PUT", "/v1/topics/new", {"lease": "10s"}, "put")
        changed = await twice(ways, "PATCH", "/v1/topics/new", {"lease": "20s"}, "patch", if_match='"1"')
        assert changed.document["revision"] == 2
        await twice(ways, "DELETE", "/v1/topics/new", None, "delete", if_match='"2"')
        for path in ("/v1/operations", "/v1/messages/shift"):
            wish: dict[str, Any] = {"topic": "orders", "by": "1h"} | ({"kind": "shift"} if "oper" in path else {})
            shifted = await twice(ways, "POST", path, wish, f"shift {path}")
            assert shifted.document["changed"] == 1
        found = await ask(leader, "GET", f"/v1/messages/{said.document['id']}", key=None)
        assert found.document["revision"] == said.document["revision"] + 2

    run_nodes(tmp_path, scene)


def test_another_request_under_the_key(tmp_path: Path) -> None:
    """422, with nothing done: another body, path, If-Match or route. Another order of the fields is the same."""

    async def scene(node: Node) -> None:
        await ready(node)
        first = await ask(node, "POST", "/v1/messages", MESSAGE)
        again = await ask(node, "POST", "/v1/messages", dict(reversed(MESSAGE.items())))
        assert (again.replayed, again.same(first)) == (True, True)
        path = f"/v1/messages/{first.document['id']}"
        for method, where, body in (
            ("POST", "/v1/messages", MESSAGE | {"body": 2}),
            ("DELETE", path, None),
            ("PATCH", path, {"delay": "2h"}),
            ("PUT", "/v1/topics/orders", {}),
            ("POST", "/v1/operations", {"kind": "cancel", "topic": "orders"}),
        ):
            said = await ask(node, method, where, body)
            assert (said.status, said.document["code"]) == (422, "key-reused"), said
            assert said.document["errors"][0]["header"] == "Idempotency-Key"
        assert await count(node) == 1
        await ask(node, "PATCH", path, {"delay": "2h"}, "p", '"1"')
        assert (await ask(node, "PATCH", path, {"delay": "2h"}, "p", '"2"')).document["code"] == "key-reused"

    run_node(tmp_path, scene)


def test_a_refusal_lets_the_key_go(tmp_path: Path) -> None:
    """A move of a message that is leased is refused; when the lease is over, the same request is carried out."""

    async def scene(node: Node) -> None:
        await ready(node)
        sent = (await ask(node, "POST", "/v1/messages", {"topic": "orders", "body": 1}, None)).document
        pulled = await ask(node, "POST", "/v1/topics/orders/pull", {"wait": "5s", "lease": "1m"}, None)
        (delivery,) = pulled.document["messages"]
        path = f"/v1/messages/{sent['id']}"
        refused = await ask(node, "PATCH", path, {"delay": "2h"})
        assert (refused.status, refused.document["code"]) == (409, "leased")
        await ask(node, "POST", "/v1/topics/orders/nack", {"receipts": [delivery["receipt"]], "delay": "1h"}, None)
        done = await ask(node, "PATCH", path, {"delay": "2h"})
        assert (done.status, done.replayed) == (200, False)
        assert (await ask(node, "PATCH", path, {"delay": "2h"})).same(done)

    run_node(tmp_path, scene)


def test_two_at_the_same_time(tmp_path: Path) -> None:
    """Thirty equal requests at three nodes at once: one message, and thirty equal answers."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await until(lambda: all(node.group.machine.level >= 4 for node in nodes), what="level 4")
        said = await asyncio.gather(*(ask(nodes[at % 3], "POST", "/v1/messages", MESSAGE) for at in range(30)))
        assert all(each.same(said[0]) for each in said)
        assert sum(not each.replayed for each in said) == 1
        assert await count(leader) == 1

    run_nodes(tmp_path, scene)


def test_two_deletes_at_the_same_time(tmp_path: Path) -> None:
    """Of equal deletes of a topic at once, each gets the answer of the one that had the effect."""

    async def scene(node: Node) -> None:
        await ready(node)
        await put_topic(node, "new", TopicChange())
        said = await asyncio.gather(*(ask(node, "DELETE", "/v1/topics/new") for _ in range(10)))
        assert {(each.status, each.body) for each in said} == {(200, said[0].body)}
        assert sum(not each.replayed for each in said) == 1

    run_node(tmp_path, scene)


def test_an_operation_that_is_sent_again_while_nothing_is_known_holds_nothing(tmp_path: Path) -> None:
    """The disk stands still, and a release is asked for twice under one key. Both outcomes are unknown. When the disk
    goes on, the first has its effect, the second is void, and the messages go out."""
    go, sync = threading.Event(), os.fdatasync

    def stalled(file: int) -> None:
        go.wait(30)
        sync(file)

    async def scene(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=3_600_000) for _ in range(5)])
        wish, in_hand = {"kind": "release", "topic": "orders"}, node.group.leading.in_hand
        with patch("os.fdatasync", stalled):
            first, second = [await ask(node, "POST", "/v1/operations", wish) for _ in range(2)]
            assert {first.status, second.status} == {504}
            assert len(in_hand.proposed) == 2
            go.set()
            done = await ask(node, "POST", "/v1/operations", wish)
            assert done.replayed
        await until(lambda: not node.group.store.catalog.of(OPERATIONS).running)
        assert in_hand.proposed == {}
        pulled = await ask(node, "POST", "/v1/topics/orders/pull", {"wait": "5s", "max": 5}, None)
        assert len(pulled.document["messages"]) == 5

    run_node(tmp_path, scene)


def test_what_is_gone_by_then(tmp_path: Path) -> None:
    """A topic that was deleted since: the repeat of its PUT says so, and makes none. An operation that is forgotten."""

    async def scene(node: Node) -> None:
        await ready(node)
        assert (await ask(node, "PUT", "/v1/topics/new", {})).status == 200
        await node.front.delete_topic("new", if_match=None, principal=ANONYMOUS)
        again = await ask(node, "PUT", "/v1/topics/new", {})
        assert (again.status, again.document["code"]) == (404, "unknown-topic")
        assert "deleted since" in again.document["detail"]
        wish = {"kind": "cancel", "topic": "new"}
        await put_topic(node, "new", TopicChange(lease_ms=1_000))
        begun = await ask(node, "POST", "/v1/operations", wish, "o")
        with patch.object(view, "KEPT_MS", 0):
            again = await ask(node, "POST", "/v1/operations", wish, "o")
        assert (again.replayed, again.document) == (True, {"id": begun.document["id"], "state": "gone"})
        assert (await ask(node, "PUT", "/v1/topics/new", {})).document["lease"] == "1s"

    run_node(tmp_path, scene)


@pytest.mark.parametrize("key", ["", " ", "k" * 256, "k\u00e9", "a\tb"])
def test_bad_keys(key: str, tmp_path: Path) -> None:
    """422 or 400 with the header's name, and nothing written."""

    async def scene(node: Node) -> None:
        await ready(node)
        said = await ask(node, "POST", "/v1/messages", MESSAGE, key)
        assert said.status in (400, 422), said
        assert "Idempotency-Key" in said.body.decode()

    run_node(tmp_path, scene)


def test_answers_outlive_all_nodes(tmp_path: Path) -> None:
    """All nodes crash, and one of them gets a snapshot: the same answers."""
    requests = [
        ("POST", "/v1/messages", MESSAGE),
        ("PUT", "/v1/topics/new", {"lease": "10s"}),
        ("POST", "/v1/operations", {"kind": "cancel", "topic": "orders"}),
    ]

    async def scene(nodes: Nodes) -> None:
        leader = await nodes.leader()
        await until(lambda: leader.group.machine.level >= 4, what="level 4")
        first = [await ask(leader, *request, key=str(at)) for at, request in enumerate(requests)]
        assert {said.status for said in first} <= {200, 201}, first
        await asyncio.gather(*map(nodes.crash, nodes.configs))
        nodes.wipe("n0")
        nodes.start()
        leader = await nodes.leader()
        await nodes.level()
        for at, request in enumerate(requests):
            for node in nodes.alive.values():
                again = await ask(node, *request, key=str(at))
                assert (again.replayed, again.same(first[at])) == (True, True), (first[at], again)

    play(Nodes(tmp_path), scene)
