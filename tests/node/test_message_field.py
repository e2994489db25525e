"""A field of a message is a row: one that a test adds goes through a whole node, and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from node.message.view import find
from node.node import Node
from tests.api.contract.added import added, note
from tests.node.single_node import run_node


class Http:
    """Requests to one node."""

    def __init__(self, node: Node, session: aiohttp.ClientSession) -> None:
        self._base = f"http://{node.config.http.listen}"
        self._session = session

    async def send(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """Status and document of the answer."""
        async with self._session.request(method, self._base + path, json=document) as answer:
            return answer.status, await answer.json(content_type=None)

    async def schedule(self, **fields: Any) -> tuple[int, Any]:
        """One message of topic t."""
        return await self.send("POST", "/v1/messages", {"topic": "t", "body": 1, **fields})

    async def pull(self) -> Any:
        """The one message that is ready."""
        _, found = await self.send("POST", "/v1/topics/t/pull", {"wait": "5s"})
        (message,) = found["messages"]
        return message


def test_a_field_that_a_test_adds_goes_through_a_node_and_back(tmp_path: Path) -> None:
    """HTTP in, the record, GET and pull out, also after a failed hand-over and in another life of the node. The same
    key with another value is another request; a fault has pointer and limit."""
    ids: list[str] = []

    async def first_life(node: Node) -> None:
        async with aiohttp.ClientSession() as session:
            http = Http(node, session)
            status, scheduled = await http.schedule(note="for Ada", key="k")
            assert (status, scheduled["state"]) == (201, "scheduled")
            ids.append(scheduled["id"])
            assert find(node.group.store, ids[0]).record.extension == {"note": "for Ada"}

            assert await http.schedule(note="for Ada", key="k") == (201, scheduled | {"outcome": "replayed"})
            status, problem = await http.schedule(note="for Bob", key="k")
            assert (status, problem["code"], problem["id"]) == (409, "key-conflict", ids[0])
            status, problem = await http.schedule(note="x" * 17)
            assert (status, problem["code"]) == (422, "invalid-field")
            detail = "it is 1 to 16 bytes of UTF-8, got 17"
            assert problem["errors"] == [{"pointer": "/note", "detail": detail}]
            status, problem = await http.send("PATCH", f"/v1/messages/{ids[0]}", {"delay": "1h", "note": "later"})
            assert (status, problem["errors"][0]["pointer"]) == (422, "/note")

            pulled = await http.pull()
            assert (pulled["id"], pulled["note"], "retry" in pulled) == (ids[0], "for Ada", False)
            await http.send("POST", "/v1/topics/t/nack", {"receipts": [pulled["receipt"]], "delay": 1})

    async def second_life(node: Node) -> None:
        async with aiohttp.ClientSession() as session:
            http = Http(node, session)
            pulled = await http.pull()
            assert (pulled["id"], pulled["attempt"], pulled["note"]) == (ids[0], 2, "for Ada")
            _, shown = await http.send("GET", f"/v1/messages/{ids[0]}")
            assert (shown["note"], shown["retry"]) == ("for Ada", None)
            await http.schedule(retry={"max_attempts": 3})
            plain = await http.pull()
            assert "note" not in plain
            _, shown = await http.send("GET", f"/v1/messages/{plain['id']}")
            assert (shown["note"], shown["retry"]) == (None, {"max_attempts": 3})

    with added(note()):
        run_node(tmp_path, first_life)
        run_node(tmp_path, second_life)

    async def an_older_build(node: Node) -> None:
        async with aiohttp.ClientSession() as session:
            _, shown = await Http(node, session).send("GET", f"/v1/messages/{ids[0]}")
            assert "note" not in shown

    run_node(tmp_path, an_older_build)


def test_each_line_of_a_batch_may_have_it(tmp_path: Path) -> None:
    """Those at fault have their own problem."""

    async def play(node: Node) -> None:
        async with aiohttp.ClientSession() as session:
            lines = b'{"topic":"t","body":1,"note":"a"}\n{"topic":"t","body":2,"note":""}\n{"topic":"t","body":3}'
            url = f"http://{node.config.http.listen}/v1/messages/batch"
            headers = {"Content-Type": "application/x-ndjson"}
            async with session.post(url, data=lines, headers=headers) as answer:
                told = [json.loads(line) for line in (await answer.read()).splitlines()]
            assert [each.get("error", {}).get("code") for each in told] == [None, "invalid-field", None]
            kept = [find(node.group.store, each["id"]).record.extension for each in told if "id" in each]
            assert kept == [{"note": "a"}, {}]

    with added(note()):
        run_node(tmp_path, play)
