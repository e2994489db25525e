"""Leadership moved on purpose, on three whole nodes: who is asked, what is refused, and where requests go meanwhile."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from api.port.port import ANONYMOUS, PullIn
from api.port.problem import Problem
from node.cluster.transfer import QUIESCE_S
from node.node import Node
from node.port.group_port import NodeNamed
from tests.node.moving import followers, schedule, stuck_disk
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import turns, until


async def refusal(node: Node, to: str | None) -> str:
    """The code with which a transfer asked of this node is refused."""
    with pytest.raises(Problem) as refused:
        await node.front.transfer(to, principal=ANONYMOUS)
    return refused.value.code


def test_a_leader_that_is_told_to_stop_while_it_yields_gives_once(tmp_path: Path) -> None:
    """Its clock is off, it seals and gives; SIGTERM comes in between and waits for that. (Both sealed at once: one
    waited a second for nothing, and its failure set hand-overs free while the other's leadership was on its way.)"""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        seen: list[bool] = []
        seals: list[float] = []
        term, thaw, seal = leader.group.raft.term, leader.group.transfer.thaw, leader.group.proposer.seal

        def thawed() -> None:
            seen.append(leader.group.raft.is_leader)
            thaw()

        async def sealed(seconds: float, freeze: Callable[[], None]) -> bool:
            seals.append(seconds)
            return await seal(seconds, freeze)

        leader.group.transfer.thaw = thawed  # type: ignore[method-assign]
        leader.group.proposer.seal = sealed  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        with stuck_disk(leader) as let_go:  # so that the one is not over before the other comes
            waits = loop.create_task(schedule(leader))
            first = loop.create_task(leader.group.transfer.give_up())
            await asyncio.sleep(0)
            second = loop.create_task(leader.group.transfer.leave())
            await asyncio.sleep(0)
            begun_s = loop.time()
            let_go.set()
            await first
            assert not await second
        assert loop.time() - begun_s < QUIESCE_S
        assert True not in seen
        assert len(seals) == 1
        assert leader.group.leader_term is None
        await leader_of(nodes, term_above=term)  # beside disks that take a second the former one may win again
        await asyncio.gather(waits, return_exceptions=True)

    run_nodes(tmp_path, scene)


def test_the_answer_says_who_leads_since_which_term(tmp_path: Path) -> None:
    """To each by name, and to the best: one term each, and the new leader reigns and has everything. Where the disk
    keeps the one that was asked for from the next term, another is elected, and the answer names that one."""

    async def scene(nodes: list[Node]) -> None:
        for _ in range(4):
            old = await leader_of(nodes)
            term = old.group.raft.term
            id = await schedule(old)
            to = followers(nodes, old)[0].config.node_id
            answer = await old.front.transfer(to, principal=ANONYMOUS)
            assert (answer.from_node, answer.term_before) == (old.config.node_id, term)
            assert answer.to_node == to or answer.term_after > term + 1
            assert 0 <= answer.took_ms < 5_000
            assert old.group.leader_term is None
            new = await leader_of(nodes, term_above=term)
            assert (answer.to_node, answer.term_after) == (new.config.node_id, new.group.raft.term)
            assert (await new.front.message(id, local=False, principal=ANONYMOUS)).state == "ready"
        best = await new.front.transfer(None, principal=ANONYMOUS)
        assert best.to_node != best.from_node == new.config.node_id

    run_nodes(tmp_path, scene)


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    """Nobody by that name; asked of a node that does not lead; a second one; to itself is answered at once."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        term, name = leader.group.raft.term, leader.config.node_id
        assert await refusal(leader, "n9") == "unknown-node"
        with pytest.raises(Problem, match="no-leader"):
            await followers(nodes, leader)[0].group.port.transfer(NodeNamed(name))
        same = await leader.front.transfer(name, principal=ANONYMOUS)
        assert (same.from_node, same.to_node, same.term_before, same.term_after) == (name, name, term, term)
        to = followers(nodes, leader)[1].config.node_id
        first = asyncio.ensure_future(leader.front.transfer(to, principal=ANONYMOUS))
        await asyncio.sleep(0)
        assert await refusal(leader, None) == "change-in-progress"
        moved = await first
        assert (moved.from_node, moved.to_node, moved.term_before) == (name, to, term)

    run_nodes(tmp_path, scene)


def test_a_target_that_is_down_is_refused_at_once(tmp_path: Path) -> None:
    """The leader leads on in its term; the best is then another one."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        down, other = followers(nodes, leader)
        term, name = leader.group.raft.term, down.config.node_id
        down.life.stop()
        await until(lambda: not leader.group.raft.peers[name].connected)
        assert await refusal(leader, name) == "not-caught-up"
        assert (leader.group.raft.term, leader.group.leader_term is not None) == (term, True)
        await schedule(leader)
        answer = await leader.front.transfer(None, principal=ANONYMOUS)
        assert answer.to_node == other.config.node_id

    run_nodes(tmp_path, scene)


def test_a_target_that_does_not_get_there_holds_nobody_for_long(tmp_path: Path) -> None:
    """Its disk stands still: it is called off, and requests that came meanwhile are served here, in the old term."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        target = followers(nodes, leader)[0]
        term = leader.group.raft.term
        with stuck_disk(target):
            await schedule(leader)  # what the target has not on disk
            refused = asyncio.ensure_future(refusal(leader, target.config.node_id))
            await until(lambda: leader.group.leadership.frozen)
            assert not leader.front.leads()
            url = f"http://{leader.config.http.listen}/v1/messages"
            async with aiohttp.ClientSession() as http, http.post(url, json={"topic": "t", "body": 2}) as answer:
                assert (answer.status, answer.headers["Hourwheel-Node"]) == (201, leader.config.node_id)
            assert await refused == "not-caught-up"
        assert (leader.group.raft.term, leader.front.leads()) == (term, True)
        await schedule(leader)
        assert (await leader.front.transfer(None, principal=ANONYMOUS)).term_after == term + 1

    run_nodes(tmp_path, scene)


def test_not_during_a_change_of_members_nor_to_one_that_lags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by name, in the old term, and everything goes on."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        term, to = leader.group.raft.term, followers(nodes, leader)[0].config.node_id
        with monkeypatch.context() as changing:
            changing.setattr(type(leader.group.raft), "changing", True)
            assert await refusal(leader, to) == "change-in-progress"
        with monkeypatch.context() as lagging:
            lagging.setattr(leader.group.transfer, "_lag", lambda peer: 101)
            with pytest.raises(Problem, match="lacks the last 101 entries"):
                await leader.front.transfer(to, principal=ANONYMOUS)
            with pytest.raises(Problem, match=r"n\d lacks the last 101 entries; n\d lacks .*; this node leads on"):
                await leader.front.transfer(None, principal=ANONYMOUS)
        await schedule(leader)
        assert leader.group.raft.term == term
        assert (await leader.front.transfer(to, principal=ANONYMOUS)).to_node == to

    run_nodes(tmp_path, scene)


def test_leadership_lost_before_it_begins_is_a_refusal(tmp_path: Path) -> None:
    """Between the request and the first step of its task: it ended the node."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        term = leader.group.raft.term
        asked = asyncio.ensure_future(leader.front.transfer(None, principal=ANONYMOUS))
        await asyncio.sleep(0)
        leader.group.raft.resign()
        with pytest.raises(Problem, match="no-leader"):
            await asked
        new = await leader_of(nodes, term_above=term)
        assert not leader.life.failed
        assert (await new.front.transfer(None, principal=ANONYMOUS)).repeated == 0

    run_nodes(tmp_path, scene)


def test_a_leader_that_is_not_sure_waits_for_the_next_echoes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As any request does: an operator need not ask again. A node that was removed meanwhile is refused by name."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        assert leader.group.leader_term is not None
        removed, other = (node.config.node_id for node in followers(nodes, leader))
        with monkeypatch.context() as unsure:
            unsure.setattr(type(leader.group.raft), "trusted", lambda group, now: False)
            refused = asyncio.ensure_future(refusal(leader, removed))
            asked = asyncio.ensure_future(leader.front.transfer(other, principal=ANONYMOUS))
            await turns(20)
            assert not refused.done()
            assert not asked.done()
        with monkeypatch.context() as changed:
            changed.setattr(leader.group.members, "ids", lambda: {leader.config.node_id, other})
            leader.group.leader_term.trust_returned()
            assert (await asked).to_node == other
            assert await refused == "unknown-node"

    run_nodes(tmp_path, scene)


def test_a_caller_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    """Leadership moves all the same, and the next transfer is not held up by the one that nobody waits for."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        term = leader.group.raft.term
        asked = asyncio.ensure_future(leader.front.transfer(None, principal=ANONYMOUS))
        await until(lambda: leader.group.leadership.frozen)
        asked.cancel()
        new = await leader_of(nodes, term_above=term)
        await new.front.transfer(leader.config.node_id, principal=ANONYMOUS)
        await leader_of(nodes, term_above=term + 1)
        assert leader.group.leader_term is not None
        assert await refusal(leader, "n9") == "unknown-node"

    run_nodes(tmp_path, scene)


def test_a_leader_that_stops_hands_over_first(tmp_path: Path) -> None:
    """Without an election timeout, and with every hand-over in the log: its message is leased, not ready again."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        term = leader.group.raft.term
        id = await schedule(leader)
        (delivery,) = await leader.front.pull(PullIn("t", 10, 5_000, 30_000), ANONYMOUS)
        leader.life.stop()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        new = await leader_of(followers(nodes, leader), term_above=term)
        assert new.group.raft.term == term + 1
        assert loop.time() - begun < 2
        assert (await new.front.message(id, local=False, principal=ANONYMOUS)).state == "leased"
        assert await new.front.ack("t", [delivery.receipt], ANONYMOUS) == ["acked"]

    run_nodes(tmp_path, scene)
