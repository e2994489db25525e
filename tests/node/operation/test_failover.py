"""An operation whose leader goes between the entry of its set and its first chunk, on three whole nodes."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import CountQuery
from node.node import Node
from node.operation import work
from storage.format.position import HOUR_MS
from storage.tables.registry import OPERATIONS
from tests.node.message.everything import put_topic, schedule, views_of
from tests.node.moving import followers
from tests.node.operation.test_cancel_many import begin, ready, stopped, wish
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until


def test_the_next_leader_judges_by_the_set_and_goes_on(tmp_path: Path) -> None:
    """From its first moment: GET, keys, pull and DELETE say that the messages are cancelled, and a leased one is its
    consumer's. Then its chunks do the rest, and all nodes have the same."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await ready(leader)
        await put_topic(leader, "orders", TopicChange(retry={"max_attempts": 9, "min_backoff_ms": 1_000}))
        keyed = MessageIn("orders", b"1", delay_ms=HOUR_MS, key="k", fingerprint=b"f" * 16, on_conflict="keep")
        ids = await schedule(leader, [keyed, *(MessageIn("orders", b"2", delay_ms=700) for _ in range(5))])
        (leased,) = await schedule(leader, [MessageIn("orders", b"3")])
        (pulled,) = await leader.front.pull(PullIn("orders", 1, 5_000, 3_600_000), ANONYMOUS)
        assert pulled.id == leased
        with stopped() as go:
            runs = await begin(leader, wish("orders", wait_s=0))
            term = leader.group.raft.term
            leader.group.raft.resign()
            heir = await leader_of(nodes, term_above=term)
            assert (await heir.front.operation(runs.id, principal=ANONYMOUS)).changed == 0
            assert {view.state for view in await views_of(heir, ids)} == {"cancelled"}
            (again,) = await schedule(heir, [keyed])
            assert again == ids[0], "the key has its holder for as long as one that ended"
            assert (await heir.front.cancel(ids[0], if_match=None, principal=ANONYMOUS)).prior == "none"
            with pytest.raises(Problem, match="leased"):
                await heir.front.cancel(leased, if_match=None, principal=ANONYMOUS)
            assert await heir.front.pull(PullIn("orders", 10, 1_500, 30_000), ANONYMOUS) == []
            assert await heir.front.nack("orders", [pulled.receipt], delay_ms=0, principal=ANONYMOUS) == ["nacked"]
            go.set()
            await until(lambda: not heir.group.store.catalog.of(OPERATIONS).running, what="the end")
        ended = await heir.front.operation(runs.id, principal=ANONYMOUS)
        assert (ended.state, ended.matched, ended.changed, ended.skipped["leased"]) == ("done", 7, 7, 0)
        assert {view.state for view in await views_of(heir, [*ids, leased])} == {"cancelled"}
        index = heir.group.machine.applied_index
        for node in followers(nodes, heir):
            await until(partial(has_applied, node, index))
            known = node.group.store.catalog.of(OPERATIONS)
            assert (known.all(), known.running) == (heir.group.store.catalog.of(OPERATIONS).all(), ())

    run_nodes(tmp_path, scene)


def test_a_leader_that_goes_between_two_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again: each message is counted once."""
    monkeypatch.setattr(work, "CHUNK_ROWS", 7)

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await ready(leader)
        ids = await schedule(leader, [MessageIn("orders", b"1", delay_ms=HOUR_MS + row) for row in range(700)])
        runs = await begin(leader, wish("orders", wait_s=0))
        for changed in (50, 200, 450):
            await until(partial(has_changed, nodes, runs.id, changed), what=changed)
            leader = await leader_of(nodes)
            term = leader.group.raft.term
            leader.group.raft.resign()
            await leader_of(nodes, term_above=term)
        leader = await leader_of(nodes)
        await until(lambda: not leader.group.store.catalog.of(OPERATIONS).running, what="the end")
        ended = await leader.front.operation(runs.id, principal=ANONYMOUS)
        assert (ended.matched, ended.changed, ended.prior["none"]) == (700, 700, 700)
        assert (await leader.front.count(CountQuery(topic="orders"), principal=ANONYMOUS)).count == 0
        assert len(ids) == 700

    run_nodes(tmp_path, scene)


def has_applied(node: Node, index: int) -> bool:
    """True once the node has applied the entry at this index."""
    return node.group.machine.applied_index >= index


def has_changed(nodes: list[Node], id: str, least: int) -> bool:
    """True once any of these nodes knows that the operation has cancelled so many messages."""
    number = int(id.removeprefix("op-"))
    known = [node.group.store.catalog.of(OPERATIONS).find(number) for node in nodes]
    return any(each is not None and each.progress.changed >= least for each in known)


def test_a_client_that_waits_hears_of_an_operation_that_goes_on(tmp_path: Path) -> None:
    """The leader goes while the client waits for the end: its answer is the operation, which runs."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await ready(leader)
        await schedule(leader, [MessageIn("orders", b"1", delay_ms=HOUR_MS)])
        with stopped() as go:
            waiting = asyncio.ensure_future(begin(leader, wish("orders", wait_s=30)))
            await until(lambda: leader.group.store.catalog.of(OPERATIONS).running, what="the set")
            leader.group.raft.resign()
            answer = await waiting
            assert (answer.state, answer.changed) == ("running", 0)
            go.set()
            heir = await leader_of(nodes)
            await until(lambda: not heir.group.store.catalog.of(OPERATIONS).running, what="the end")
        assert (await heir.front.operation(answer.id, principal=ANONYMOUS)).changed == 1

    run_nodes(tmp_path, scene)
