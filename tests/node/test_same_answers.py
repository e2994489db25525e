"""Whichever node is asked: the same bytes get the same answer."""

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from node.message import change
from node.node import Node
from node.pull import pulling
from storage.format.level import LEVELS
from tests.node.both_sides import BothSides
from tests.node.cluster_requests import CLUSTER, DRAINED, ONE_DOWN, REMOVED, TAKEN
from tests.node.consumer_requests import CROWDED, DEATHS, PULLS, TOPICS_MAX
from tests.node.every_request import BATCHES, CHANGES, COUNTS, OPERATIONS, SCHEDULES, TOPICS, Request
from tests.node.example_requests import example_requests
from tests.node.odd_requests import VALID, odd_requests
from tests.node.same_answer import ask
from tests.node.three_nodes import leader_of, run_nodes
from tests.node.wire_requests import UNREAD, WIRES
from tests.waiting import until

SEED, AT_ONCE = 22, 8
COUNT = {"calls": 1_400, "http": 600}
_OF_THE_NODE = ("hourwheel-node", "hourwheel-term", "date", "x-request-id", "content-length", "etag", "location")
_OF_THE_REQUEST = ("request_id", "term", "leader")


def _odd(answer: bytes) -> Any:
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


def test_b18_leader_and_follower_give_the_same_answer_to_odd_requests(tmp_path: Path, way: str) -> None:
    """Fragments, bytes that are no text, header lines twice: a follower read some of them otherwise than the leader."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)

        async def compare(requests: Iterator[bytes]) -> None:
            for request in requests:
                at_leader, at_follower = await asyncio.gather(ask(leader, request), ask(follower, request))
                assert at_leader.startswith(b"HTTP/1.1 "), request
                assert _odd(at_follower) == _odd(at_leader), request[:2_000]

        for odd in VALID:
            await ask(leader, odd.bytes())
        drawn = iter(odd_requests(SEED, COUNT[way]))  # of all at once: some are answered a second or two late
        await asyncio.gather(*(compare(drawn) for _ in range(AT_ONCE)))

    run_nodes(tmp_path, scene)


#: Codes that take a cluster that is worse than one asked over HTTP can be made.
_NOT_OVER_HTTP = frozenset(("no-leader", "disk-full", "outcome-unknown"))
#: Code -> operations of which it takes thousands at once, two at the same moment, or a node that lags.
_NOT_ONE_BY_ONE = {
    "change-in-progress": (
        "DELETE /v1/cluster/members/{id}", "DELETE /v1/topics/{topic}", "POST /v1/cluster/members",
        "POST /v1/cluster/snapshot", "POST /v1/cluster/transfer", "POST /v1/cluster/upgrade", "POST /v1/node/drain",
    ),
    "not-supported-yet": (
        "DELETE /v1/messages/{id}", "PATCH /v1/messages/{id}", "POST /v1/messages/batch", "POST /v1/messages/cancel",
        "POST /v1/messages/redrive", "POST /v1/messages/shift", "POST /v1/operations",
    ),
    "not-caught-up": ("DELETE /v1/cluster/members/{id}", "POST /v1/node/drain"),
    "202": ("POST /v1/messages/cancel", "POST /v1/messages/redrive", "POST /v1/messages/shift"),
    "over-limit": (
        "DELETE /v1/topics/{topic}", "GET /v1/ledger", "GET /v1/ledger/summary", "GET /v1/messages",
        "GET /v1/messages/count", "GET /v1/messages/histogram", "GET /v1/wheel",
        "GET /v1/messages/{id}", "POST /v1/messages/batch", "POST /v1/messages/cancel",
        "POST /v1/messages/redrive", "POST /v1/messages/shift", "POST /v1/operations", "POST /v1/topics/{topic}/ack",
        "POST /v1/topics/{topic}/extend", "POST /v1/topics/{topic}/nack",
    ),
}  # fmt: skip


def _named() -> Iterator[tuple[str, str]]:
    """Each operation of the document, with the status of each success and the code of each refusal that it names."""
    document = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                refused = status == "default" or int(status) >= 400
                for word in re.findall(r"`([a-z-]+)`", answer.get("description", "")) if refused else [status]:
                    yield f"{method.upper()} {path}", word


async def _tell_everything(both: BothSides) -> None:
    story = (example_requests(), SCHEDULES, BATCHES, CHANGES, COUNTS, OPERATIONS, TOPICS, PULLS, DEATHS, CLUSTER)
    for request in chain.from_iterable(story):
        await both.ask(request)
    for wire in WIRES:
        await both.send(wire)
    await asyncio.gather(*map(both.send, UNREAD))
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(change, "CHANGES_MAX", 3)
        limits.setattr(pulling, "FILTERS_MAX", 0)
        for request in CROWDED:
            await both.ask(request)


async def _change_cluster(both: BothSides) -> None:
    """Two nodes are drained and serve again; leadership moves; the third one stops, and is a member no more."""
    leader, other = (side.node for side in both.sides)
    third = both.third

    def heard_of(node: Node) -> bool:
        return all(each.group_directory.home.status.leader == node.config.node_id for each in (leader, other))

    await both.ask_in_turn(Request("POST /v1/node/drain", "200", {}), other, leader)
    await until(lambda: heard_of(third))
    for request in DRAINED:
        await both.ask(request)
    await both.ask_in_turn(Request("DELETE /v1/node/drain", "200"), other, leader)
    await until(lambda: not any(peer.retiring for peer in third.group.raft.peers.values()))
    moved = Request("POST /v1/cluster/transfer", "200", {"to": "$to"})
    await both.ask_in_turn(moved, third, other, other, to=(leader, third, leader))
    await until(lambda: heard_of(leader))
    third.life.stop()
    await until(lambda: not leader.group.raft.peers[third.config.node_id].connected)
    for request in ONE_DOWN:
        await both.ask(request)
    await both.ask_in_turn(REMOVED[0], leader)
    for request in REMOVED:
        await both.ask(request)


def test_leader_and_follower_give_the_same_answer_to_everything(tmp_path: Path) -> None:
    """Each operation of docs/openapi.json with each of its examples and each refusal that it names, and what is odd as
    HTTP: both answer with the same status, headers and document, and in the name of the leader."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        other, third = (node for node in nodes if node is not leader)
        await until(lambda: all(node.group.machine.level == LEVELS[1] for node in nodes))
        for node in nodes:
            node.config.backup_directory.mkdir()
            (node.config.backup_directory / TAKEN).touch()
        both = BothSides(leader, other, third)
        await _tell_everything(both)
        await _change_cluster(both)
        assert "\n".join(both.differ) == ""
        missed = sorted((operation, word) for operation, word in _named() if word not in both.met[operation])
        known = ((operation, code) for code, operations in _NOT_ONE_BY_ONE.items() for operation in operations)
        assert [each for each in missed if each[1] not in _NOT_OVER_HTTP] == sorted(known)

    run_nodes(tmp_path, scene, limits={"max_topics": TOPICS_MAX})
