"""When the level rises in clusters of real nodes, and who is named while it cannot. Older builds themselves stand in
tests/chaos/versions/test_run.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.port.problem import Problem
from node.node import Node
from node.port.group_port import LevelAsked
from storage.format.level import LEVELS
from tests.node.place import Place, cluster
from tests.waiting import until

IDS = ("n1", "n2", "n3")


def asked(place: Place, node_id: str) -> Node:
    """Start a node that waits to be asked."""
    return place.start(node_id, *IDS, raft={"listen": place.peer(node_id)["raft"], "upgrade": "asked"})


def test_the_level_rises_by_itself_when_all_members_read_it(tmp_path: Path) -> None:
    """On every node, by the log; the document of the cluster shows it, and what each node reads."""

    async def scene() -> None:
        async with cluster(tmp_path, *IDS) as place:
            await until(lambda: all(node.group.levels.level == LEVELS[1] for node in place.nodes.values()))
            document = (await place.leader()).group.status.cluster()
            assert document["level"] == LEVELS[1]
            assert [tuple(member["reads"]) for member in document["nodes"]] == [LEVELS] * 3
            assert await place.led(lambda leader: leader.front.upgrade(None)) == LEVELS[1]

    asyncio.run(scene())


def test_a_member_that_is_away_holds_the_level_and_is_named(tmp_path: Path) -> None:
    """It could come back as an older build. With all there it still waits to be asked, and then all nodes follow."""

    async def scene() -> None:
        place = Place(tmp_path)
        for node_id in IDS:
            asked(place, node_id)
        try:
            await until(lambda: all(node.group.store.cluster_id for node in place.nodes.values()))
            await place.stop("n3")
            problem = await place.refusal(lambda leader: leader.front.upgrade(2))
            assert (problem.status, problem.code) == (422, "not-supported-yet")
            assert (problem.extra["node"], problem.extra["reads"], problem.extra["level"]) == ("n3", None, 1)
            assert "n3 is not connected" in problem.detail
            with pytest.raises(Problem, match="n3 is not connected"):
                (await place.leader()).group.levels.require("hello-group")
            asked(place, "n3")
            nodes = list(place.nodes.values())
            await until(lambda: all(set(node.group.levels.reads().values()) == {LEVELS} for node in nodes))
            with pytest.raises(Problem, match="it rises in a moment, or when it is asked to"):
                (await place.leader()).group.levels.require("hello-group")
            assert [node.group.levels.level for node in nodes] == [1, 1, 1]
            problem = await place.refusal(lambda leader: leader.front.upgrade(LEVELS[1] + 1))
            assert tuple(problem.extra["reads"]) == LEVELS
            assert await place.led(lambda leader: leader.front.upgrade(None)) == LEVELS[1]
            await until(lambda: all(node.group.levels.level == LEVELS[1] for node in nodes))
            (await place.leader()).group.levels.require("hello-group")
        finally:
            for node in place.nodes.values():
                node.life.stop()
            await asyncio.gather(*place.serving.values())

    asyncio.run(scene())


def test_who_leaves_between_two_levels_holds_the_second(tmp_path: Path) -> None:
    """Seed 36626: a node left right behind the first, and was taken for one that reads the next."""

    async def scene() -> None:
        place = Place(tmp_path)
        for node_id in IDS:
            asked(place, node_id)
        try:
            await until(lambda: all(node.group.store.cluster_id for node in place.nodes.values()))
            leader = await place.leader()
            levels = leader.group.levels
            await until(lambda: levels.lagging(LEVELS[1]) is None)
            away = next(name for name, node in place.nodes.items() if node is not leader)
            propose = levels._raise

            async def proposed(level: int) -> str | None:
                error = await propose(level)
                await place.stop(away)
                await until(lambda: levels.lagging(level + 1) is not None)
                return error

            levels._raise = proposed  # type: ignore[method-assign]
            with pytest.raises(Problem, match=f"the cluster is at level 2: {away} is not connected"):
                await levels.upgrade(None)
            assert levels.level == 2
        finally:
            for node in place.nodes.values():
                node.life.stop()
            await asyncio.gather(*place.serving.values())

    asyncio.run(scene())


def test_a_node_that_follows_says_so(tmp_path: Path) -> None:
    """The HTTP layer passes the request on to the leader then."""

    async def scene() -> None:
        async with cluster(tmp_path, *IDS) as place:
            leader = await place.leader()
            follower = next(node for node in place.nodes.values() if node is not leader)
            if follower.group.levels.level < 2:
                with pytest.raises(Problem, match=r"no-leader|not-supported-yet"):
                    await follower.group.port.upgrade(LevelAsked(2))
            await until(lambda: follower.group.levels.level == 2)
            assert await follower.front.upgrade(2) == 2

    asyncio.run(scene())
