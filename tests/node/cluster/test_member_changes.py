"""Adding, removing and replacing nodes: real nodes in one loop, with real directories and sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.port.problem import Problem
from chaos.cluster.ports import free_ports
from node.cluster.members import NodeRemoved
from node.node import Node
from replication.command.member import REMOVE, ChangeMember
from tests.node.place import Place, cluster
from tests.waiting import until


def roles(node: Node) -> dict[str, str]:
    """As GET /v1/cluster tells."""
    return {member["id"]: member["role"] for member in node.group.status.cluster()["nodes"]}


def test_one_node_grows_to_three_and_each_is_replaced(tmp_path: Path) -> None:
    """1 -> 3, then every founder goes, the leader too: nothing is lost, numbers are never given again, and those that
    were removed end by themselves and say why."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1") as place:
            await place.schedule(10)
            for node_id in ("n2", "n3", "n4"):
                await place.grow(node_id)
                await place.schedule(10)
            leader = await place.leader()  # the founder, where the machine was not too busy for it to stay
            first, number = leader.config.node_id, leader.group.members.number
            with pytest.raises(Problem, match="no-leader"):
                await leader.front.remove_member(first)
            assert (await place.leader()).config.node_id != first
            view = await place.led(lambda leader: leader.front.remove_member(first))
            assert (view.number, view.role) == (number, "removed")
            why = await place.ended(first)
            assert isinstance(why, NodeRemoved)
            assert f"{first} was removed from" in str(why)
            await place.is_out(first)
            await place.schedule(10)
            assert roles(await place.leader()).keys() == {"n1", "n2", "n3", "n4"} - {first}
            assert {node.group.members.number for node in place.nodes.values()} == {1, 2, 3, 4} - {number}
            await until(lambda: {node.group.store.unit_count for node in place.nodes.values()} == {50})

    asyncio.run(scene())


def test_a_node_that_was_down_when_it_was_removed_is_told(tmp_path: Path) -> None:
    """Its peers refuse it in words it understands, and it ends; started again, it ends at once, if it could apply its
    own removal, or is told again."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1", "n2", "n3") as place:
            away = next(node_id for node_id, node in place.nodes.items() if node.group.leader_term is None)
            await place.stop(away)
            await place.schedule()
            leader = await place.leader()
            await until(lambda: not leader.group.raft.peers[away].connected)
            await place.led(lambda leader: leader.front.remove_member(away))
            place.start(away, "n1", "n2", "n3")
            why = await place.ended(away)
            assert isinstance(why, NodeRemoved)
            assert "was removed from this cluster" in str(why)
            await place.is_out(away)
            await place.schedule()
            old = place.peer(away)  # with the addresses it had it looks like a request that is sent again
            problem = await place.refusal(lambda leader: leader.front.add_member(away, old["raft"], old["http"]))
            assert problem.errors[0].pointer == "/id"
            assert "an id is not given again" in problem.detail

    asyncio.run(scene())


def test_refusals_name_what_is_wrong(tmp_path: Path) -> None:
    """A member or its address again, nobody at the address, another node there, another cluster's data, an unknown
    member, a quorum that would be lost; the cluster goes on after each."""

    async def scene() -> None:
        async with cluster(tmp_path / "a", "n1", "n2", "n3") as place, cluster(tmp_path / "b", "m1") as other:
            leader = await place.leader()
            free = [f"127.0.0.1:{port}" for port in free_ports(2)]
            n2 = place.peer("n2")

            async def faults(*fields: str) -> tuple[str, str]:
                problem = await place.refusal(lambda leader: leader.front.add_member(*fields))
                assert problem.code == "invalid-field"
                return problem.errors[0].pointer, problem.detail

            assert await faults("n2", *free) == ("/id", "n2 is a member already")
            again = await place.led(lambda leader: leader.front.add_member("n2", n2["raft"], n2["http"]))
            assert (again.id, again.role) == ("n2", "voter")  # asked again after an answer that was lost: no fault
            assert await faults("n4", n2["raft"], free[1]) == ("/raft", f"{n2['raft']} is an address of n2")
            assert await faults("n4", free[0], n2["http"]) == ("/http", f"{n2['http']} is an address of n2")
            pointer, detail = await faults("n4", *free)
            assert pointer == "/raft"
            assert "no node of this build answers" in detail
            joining = place.start("n5", "n1", "n2", "n3", join=True)
            await place.listens("n5")
            assert roles(joining)["n5"] == "learner", "it has no vote, and was told nothing"
            assert roles(joining)["n1"] == "follower"
            pointer, detail = await faults("n4", joining.config.raft.listen, free[1])
            assert "looks for n4, this is n5" in detail
            pointer, detail = await faults("n5", joining.config.raft.listen, free[1])
            assert pointer == "/http"
            assert "no node answers HTTP at" in detail
            pointer, detail = await faults("n5", joining.config.raft.listen, other.peer("m1")["http"])
            assert pointer == "/http"
            assert "not n5 but m1 answers" in detail
            stranger = other.peer("m1")
            pointer, detail = await faults("m1", stranger["raft"], stranger["http"])
            assert "belongs to another cluster" in detail
            assert (await place.refusal(lambda leader: leader.front.remove_member("n9"))).code == "unknown-node"
            assert (await place.refusal(lambda leader: leader.front.remove_member("n5"))).code == "unknown-node"
            followers = [node_id for node_id in ("n1", "n2", "n3") if place.nodes[node_id] is not leader]
            await place.stop(followers[0])
            await until(lambda: not leader.group.raft.peers[followers[0]].connected)
            lost = await place.refusal(lambda leader: leader.front.remove_member(followers[1]))
            assert lost.code == "quorum-loss"
            assert "and up is" in lost.detail
            assert (
                "the last node with a vote"
                in (await other.refusal(lambda leader: leader.front.remove_member("m1"))).detail
            )
            await place.schedule()

    asyncio.run(scene())


def test_one_change_at_a_time(tmp_path: Path) -> None:
    """Of two that begin at the same moment one is refused."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1") as place:
            leader = place.nodes["n1"]
            place.start("n2", "n1", join=True)
            place.start("n3", "n1", join=True)
            results = await asyncio.gather(place.add("n2"), place.add("n3"), return_exceptions=True)
            refused = [result for result in results if isinstance(result, Problem)]
            assert [problem.code for problem in refused] == ["change-in-progress"]
            added = "n2" if refused[0] is results[1] else "n3"
            await until(lambda: leader.group.members.role(added) == "voter")
            assert len(leader.group.members.ids()) == 2

    asyncio.run(scene())


def test_a_learner_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Added to one node and gone before it caught up: the one goes on alone, and takes it out again. Meanwhile nothing
    else begins."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1") as place:
            leader = place.nodes["n1"]
            monkeypatch.setattr(leader.group.member_changes, "_has_caught_up", lambda peer: False)
            learner = place.start("n2", "n1", join=True)
            view = await place.add("n2")
            assert (view.number, view.role) == (2, "learner")
            await until(lambda: learner.group.members.role("n2") == "learner" and learner.group.members.number)
            assert roles(leader) == {"n1": "leader", "n2": "learner"}
            await place.stop("n2")
            await place.schedule(5)
            free = [f"127.0.0.1:{port}" for port in free_ports(2)]
            waiting = await place.refusal(lambda leader: leader.front.add_member("n3", *free))
            assert waiting.code == "change-in-progress"
            assert "n2 is being added" in waiting.detail
            removed = await leader.front.remove_member("n2")
            assert removed.role == "removed"
            assert await leader.front.remove_member("n2") == removed
            await place.schedule(5)

    asyncio.run(scene())


def test_an_empty_directory_under_a_new_id_founds_nothing(tmp_path: Path) -> None:
    """A node that joins waits, however long nobody adds it and whoever is down: it has no vote and no cluster."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1") as place:
            waiting = place.start("n2", "n1", join=True)
            await until(lambda: bool(waiting.group.transport.refusals))
            assert waiting.group.transport.refusals["n1"].reason == "unknown-node"
            assert (waiting.group.raft.role, waiting.group.store.cluster_id, waiting.group.raft.term) == (
                "learner",
                None,
                0,
            )
            assert not waiting.group.status.ready().ready
            assert not waiting.group.members.number

    asyncio.run(scene())


def test_a_member_that_slept_while_all_others_were_replaced_finds_them(tmp_path: Path) -> None:
    """Its configuration and its table know dead addresses only. Those that came since dial it, and their hello shows a
    newer list: it lets them in, answers them, and catches up."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1", "n2", "n3") as place:
            await place.stop("n3")
            for node_id in ("n4", "n5"):
                await place.grow(node_id)
            for node_id in ("n1", "n2"):
                await remove(place, node_id)
                assert isinstance(await place.ended(node_id), NodeRemoved)
            await place.schedule(7)
            slept = place.start("n3", "n1", "n2")
            await until(lambda: slept.group.store.unit_count == 7)
            assert slept.group.members.ids() == ["n3", "n4", "n5"]
            assert slept.group.members.number == 3

    asyncio.run(scene())


async def remove(place: Place, node_id: str) -> None:
    """Through whoever leads, as an HTTP request would: a leader that is to go sends it on."""

    async def removed() -> bool:
        try:
            await (await place.leader()).front.remove_member(node_id)
        except Problem as problem:
            # A leader that has just begun has not met all the others yet: to it those are down.
            if problem.code not in ("no-leader", "change-in-progress", "not-caught-up", "quorum-loss"):
                raise
            return False
        return True

    await until(removed)


def test_every_node_is_replaced_under_load(tmp_path: Path) -> None:
    """While messages come in, each of three nodes gives way to a new one: nothing that was acknowledged is lost, and
    all nodes hold the same."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1", "n2", "n3") as place:
            acked = unknown = 0
            done = asyncio.Event()

            async def load() -> None:
                nonlocal acked, unknown
                while not done.is_set():
                    try:
                        await place.schedule(20)
                        acked += 20
                    except Problem as problem:
                        unknown += 20 * (problem.code == "outcome-unknown")
                    await asyncio.sleep(0)

            loading = asyncio.ensure_future(load())
            for old, new in (("n1", "n4"), ("n2", "n5"), ("n3", "n6")):
                await place.grow(new)
                await remove(place, old)
                assert isinstance(await place.ended(old), NodeRemoved)
            done.set()
            await loading
            await place.schedule()
            nodes = list(place.nodes.values())
            await until(lambda: len({node.group.machine.applied_index for node in nodes}) == 1)
            assert acked < nodes[0].group.store.unit_count <= acked + unknown + 1
            assert len({node.group.machine.rolling_hash for node in nodes}) == 1
            assert acked > 200

    asyncio.run(scene())


def test_a_leader_that_finds_itself_removed_ends(tmp_path: Path) -> None:
    """As one would that was elected with its own removal in the log: it ends in order, and the others elect one of
    themselves."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1", "n2", "n3") as place:
            leader = await place.leader()
            own = leader.config.node_id
            await leader.group.member_changes._change(ChangeMember(REMOVE, own, leader.group.members.table.index))
            assert isinstance(await place.ended(own), NodeRemoved)
            successor = await place.leader()
            await place.schedule()
            assert sorted(successor.group.members.ids()) == sorted(place.nodes)

    asyncio.run(scene())


def test_a_majority_that_lags_keeps_a_node_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the one that keeps up every commit would wait for the other."""

    async def scene() -> None:
        async with cluster(tmp_path, "n1", "n2", "n3") as place:
            leader = await place.leader()
            slow, quick = (node_id for node_id in place.nodes if node_id != leader.config.node_id)
            monkeypatch.setattr(leader.group.member_changes, "_lag", lambda peer: 1_000 * (peer.node_id == slow))
            behind = await place.refusal(lambda leader: leader.front.remove_member(quick))
            assert (behind.code, slow in behind.detail) == ("not-caught-up", True)
            assert (await leader.front.remove_member(slow)).role == "removed"
            assert isinstance(await place.ended(slow), NodeRemoved)

    asyncio.run(scene())
