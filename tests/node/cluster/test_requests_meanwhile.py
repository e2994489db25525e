"""Requests that come while leadership is moved on purpose, on three whole nodes."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn
from node.front import pass_on
from node.front.pass_on import Forwarder
from node.group import options
from node.node import Node
from node.peer_wire import to_leader
from replication.raft.options import GroupOptions
from tests.node.moving import followers, schedule, stuck_disk
from tests.node.three_nodes import leader_of, run_nodes, to_leader_of
from tests.waiting import WITHIN_S, until


def under_way(node: Node) -> int:
    """Requests that this node has sent on to the leader."""
    assert isinstance(node.forwarder, Forwarder)
    return len(node.forwarder._under_way) + to_leader_of(node).open


async def sent_on(moving: asyncio.Future[Any], counts: dict[Node, int], saying: Sequence[asyncio.Future[Any]]) -> None:
    """Wait until each of these nodes has that many calls at the leader, while `moving`, a transfer, is under way, and
    none of `saying`, the requests, has an answer."""

    def there() -> bool:
        assert not moving.done(), f"the transfer ended meanwhile: {moving}"
        answered = [each.result() for each in saying if each.done()]
        assert not answered, f"answered meanwhile: {answered}"
        return all(under_way(node) >= count for node, count in counts.items())

    await until(there, what=counts)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transfer waits for its target as long as a test waits, and so do calls for a leader: on a busy machine a second
    may pass before all are sent."""
    monkeypatch.setattr(options, "GroupOptions", partial(GroupOptions, transfer_s=WITHIN_S))
    for way in (pass_on, to_leader):
        monkeypatch.setattr(way, "LEADER_WAIT_S", WITHIN_S)


@pytest.mark.usefixtures("unhurried")
def test_requests_wait_for_the_new_leader(tmp_path: Path) -> None:
    """Sent to the old leader, the new one and the third while leadership moves: each is done once, by the new one. The
    transfer was asked of a follower, and its answer comes from the leader that is one no more."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        target, third = followers(nodes, leader)
        term = leader.group.raft.term

        async def post(http: aiohttp.ClientSession, node: Node, path: str, document: Any) -> tuple[int, str, Any]:
            async with http.post(f"http://{node.config.http.listen}{path}", json=document) as answer:
                return answer.status, answer.headers["Hourwheel-Node"], await answer.json()

        async with aiohttp.ClientSession() as http:
            with stuck_disk(target) as let_go:
                await schedule(leader)
                to = {"to": target.config.node_id}
                moving = asyncio.ensure_future(post(http, third, "/v1/cluster/transfer", to))
                await until(lambda: leader.group.leadership.frozen)
                frozen_s = time.monotonic()
                posts = [
                    asyncio.ensure_future(post(http, node, "/v1/messages", {"topic": "u", "body": 1})) for node in nodes
                ]
                await sent_on(moving, {target: 1, third: 2}, posts)  # the third sent the transfer too
                held_ms = (time.monotonic() - frozen_s) * 1000
                let_go.set()
                status, by, document = await moving
                assert (status, by) == (200, leader.config.node_id)
                assert document.pop("took_ms") >= held_ms - 1
                assert document.pop("gap_ms") >= held_ms - 1
                assert document == {
                    "from": leader.config.node_id,
                    "to": target.config.node_id,
                    "term_before": term,
                    "term_after": term + 1,
                    "in_flight_carried": 0,
                    "repeated": 0,
                }
                for each in posts:
                    assert (await each)[:2] == (201, target.config.node_id)
        new = await leader_of(nodes, term_above=term)
        pulled = await new.front.pull(PullIn("u", 100, 2_000), ANONYMOUS)
        assert len(pulled) == 3

    run_nodes(tmp_path, scene)


@pytest.mark.usefixtures("unhurried")
def test_what_consumers_say_meanwhile_is_answered_truthfully(tmp_path: Path) -> None:
    """Acks, nacks and extensions sent to every node while leadership moves: each is done once, by either leader, and
    what they said is what the records of the new one hold."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        target = followers(nodes, leader)[0]
        # A node that has not heard of the founding reads no receipts, and answers 503 at once.
        await until(lambda: all(node.front.groups.home.status.receipts is not None for node in nodes))
        await leader.front.schedule([MessageIn("t", b"1")] * 9, ANONYMOUS)
        pulled = await leader.front.pull(PullIn("t", 9, 2_000, 20_000), ANONYMOUS)
        assert len(pulled) == 9
        said = {"ack": {}, "nack": {"delay": "1h"}, "extend": {"lease": "2h"}}

        async def say(http: aiohttp.ClientSession, node: Node, verb: str, receipt: str) -> str:
            url = f"http://{node.config.http.listen}/v1/topics/t/{verb}"
            async with http.post(url, json={"receipts": [receipt], **said[verb]}) as answer:
                document = await answer.json()
                assert answer.status == 200, document
                return str(document["results"][0]["result"])

        async with aiohttp.ClientSession() as http:
            with stuck_disk(target) as let_go:
                await schedule(leader)
                moving = asyncio.ensure_future(leader.front.transfer(target.config.node_id, principal=ANONYMOUS))
                await until(lambda: leader.group.leadership.frozen)
                words = [(node, verb) for node in nodes for verb in said]
                saying = [
                    asyncio.ensure_future(say(http, node, verb, delivery.receipt))
                    for (node, verb), delivery in zip(words, pulled, strict=True)
                ]
                await sent_on(moving, dict.fromkeys(followers(nodes, leader), 3), saying)
                let_go.set()
                moved = await moving
            assert await asyncio.gather(*saying) == ["acked", "nacked", "extended"] * 3
        new = await leader_of(nodes, term_above=moved.term_before)
        states = [(await new.front.message(each.id, local=False, principal=ANONYMOUS)).state for each in pulled]
        assert states == ["delivered", "scheduled", "leased"] * 3
        assert moved.repeated == 0

    run_nodes(tmp_path, scene)
