"""A node with two groups behind one front, which no setting makes yet: each has its log and files, and topics of its
own; the front asks the one that a topic or an id names."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from api.port.problem import Problem
from chaos.cluster.ports import free_ports
from node.environment import Environment
from node.group.group import Group
from node.node import Node
from node.runtime.config import Config, parse_config
from storage.directory.verify import verify
from storage.file.disk import DiskFailed
from storage.format.message_id import decode_id
from tests.waiting import until

SECOND = 3


def configs(directory: Path) -> dict[int, Config]:
    """Of both groups: alone in their clusters, each with a directory and a Raft address of its own."""
    http, *rafts = (f"127.0.0.1:{port}" for port in free_ports(3))
    found = {}
    for number, raft in zip((0, SECOND), rafts, strict=True):
        raw: dict[str, Any] = {
            "node_id": "n1",
            "data_dir": str(directory / str(number)),
            "http": {"listen": http},
            "raft": {"listen": raft},
            "peers": [{"id": "n1", "http": http, "raft": raft}],
        }
        found[number] = parse_config(raw, {})
    return found


async def serving(directory: Path) -> tuple[Node, asyncio.Task[None]]:
    """A node of both, that leads both."""
    both = configs(directory)
    node = Node(both[0], Environment(), both)
    node.group_directory.numbers["orders"] = SECOND
    task = asyncio.ensure_future(node.run())
    await until(lambda: all(group.leader_term is not None for group in node.groups.values()))
    return node, task


async def handed_over(node: Node, topic: str) -> Delivery:
    """A message of this topic, pulled."""
    await node.front.schedule_one(MessageIn(topic, b"1"), ANONYMOUS)
    (delivery,) = await node.front.pull(PullIn(topic, 1, 5_000, 60_000), ANONYMOUS)
    return delivery


def test_one_front_serves_both_and_neither_knows_the_others_receipts(tmp_path: Path) -> None:
    """Ids name the group, so that a message is found by its id alone; both directories verify."""

    async def play() -> None:
        node, task = await serving(tmp_path)
        first, second = await handed_over(node, "t"), await handed_over(node, "orders")
        assert [decode_id(each.id).group for each in (first, second)] == [0, SECOND]
        for each, topic in ((first, "t"), (second, "orders")):
            view = await node.front.message(each.id, local=False, principal=ANONYMOUS)
            assert (view.topic, view.state) == (topic, "leased")
        assert await node.front.ack("t", [second.receipt, first.receipt], ANONYMOUS) == ["invalid", "acked"]
        assert await node.front.ack("orders", [first.receipt, second.receipt], ANONYMOUS) == ["invalid", "acked"]
        node.life.stop()
        await task

    asyncio.run(play())
    for number in (0, SECOND):
        assert verify(tmp_path / str(number), group=number).faults == []


def test_a_group_that_is_opened_again_is_asked_nothing_before_it_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that failed in a request of that moment was forgotten. Who comes then is refused, as while it was opened;
    from its first request on a failure ends the node."""

    async def play() -> None:
        node, task = await serving(tmp_path)
        monkeypatch.setattr(Group, "takes_over", property(lambda group: not group.life.failed))
        place, early, begin = node.group_directory.of_number(SECOND), list[str](), Group.start

        def opened(_: Group) -> None:
            async def ask() -> None:
                with pytest.raises(Problem) as refused:
                    await place.port.cluster()
                early.append(refused.value.code)

            asyncio.ensure_future(ask()).add_done_callback(lambda asked: asked.result())

        async def start(group: Group) -> None:
            await begin(group)
            assert place.port is not None
            group.life.fatal(DiskFailed("read", "hours/1/log", 5))

        node._opened = opened
        monkeypatch.setattr(Group, "start", start)
        node.groups[SECOND].life.stop()
        with pytest.raises(DiskFailed, match="hours/1/log"):
            await task
        assert early == ["no-leader"]

    asyncio.run(play())


def test_a_group_that_fails_ends_the_node_and_the_other_is_closed_well(tmp_path: Path) -> None:
    """What failed is raised. Started again, both have all that was acknowledged."""

    async def fails() -> None:
        node, task = await serving(tmp_path)
        for topic in ("t", "orders"):
            await node.front.schedule_one(MessageIn(topic, b"1", delay_ms=3_600_000), ANONYMOUS)
        node.groups[SECOND].life.fatal(DiskFailed("fdatasync", "the journal", 5))
        with pytest.raises(DiskFailed, match="the journal"):
            await task

    async def again() -> None:
        node, task = await serving(tmp_path)
        for group in node.groups.values():
            assert group.store.unit_count == 1
        with pytest.raises(Problem, match="unknown-topic"):
            await node.front.topic("others", principal=ANONYMOUS)
        node.life.stop()
        await task

    asyncio.run(fails())
    asyncio.run(again())
