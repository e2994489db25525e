"""Whichever node is asked: the same bytes get the same answer."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from node.node import Node
from tests.node.odd_requests import VALID, odd_requests
from tests.node.three_nodes import leader_of, run_nodes

SEED, COUNT, AT_ONCE = 22, 2_000, 4
_OF_THE_NODE = ("hourwheel-node", "hourwheel-term", "date", "x-request-id", "content-length", "etag", "location")
_OF_THE_REQUEST = ("request_id", "term", "leader")


async def ask(node: Node, request: bytes) -> bytes:
    """All that a node answers before it closes."""
    host, _, port = node.config.http.listen.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        async with asyncio.timeout(40):
            return await reader.read()
    finally:
        writer.close()


def told(answer: bytes) -> Any:
    """What must not depend on the node: status, headers, and of a document what it says; of success only its shape."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = sorted(line for line in lines if line.split(":")[0].lower() not in _OF_THE_NODE)
    try:
        return status, headers, [_shape(json.loads(line)) for line in body.splitlines()]
    except ValueError:
        return status, headers, body


def _shape(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    error = document.get("error", document)
    if error.get("code") == "not-empty":  # how many messages a topic has changes while others schedule
        return sorted(error)
    if "code" in error:
        return {name: value for name, value in error.items() if name not in _OF_THE_REQUEST}
    return sorted(document)


def test_b18_leader_and_follower_give_the_same_answer_to_odd_requests(tmp_path: Path) -> None:
    """Fragments, bytes that are no text, header lines twice: a follower read some of them otherwise than the leader."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)

        async def compare(requests: Iterable[bytes]) -> None:
            for request in requests:
                at_leader, at_follower = await asyncio.gather(ask(leader, request), ask(follower, request))
                assert at_leader.startswith(b"HTTP/1.1 "), request
                assert told(at_follower) == told(at_leader), request[:2_000]

        for odd in VALID:
            await ask(leader, odd.bytes())
        drawn = odd_requests(SEED, COUNT)
        await asyncio.gather(*(compare(drawn[first::AT_ONCE]) for first in range(AT_ONCE)))

    run_nodes(tmp_path, scene)
