"""Deleting topics on a whole node: only what is empty, whatever comes in meanwhile, and no message is lost by it."""

import asyncio
from pathlib import Path

import pytest

import node.message.topic_drop
from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import CountQuery
from node.node import Node
from replication.command.dispatch import Realign
from replication.command.entry import encode_entry
from replication.journal.sync import Sync
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes

REFUSED = ("not-empty", "unknown-topic", "change-in-progress")


async def _put(node: Node, name: str) -> int:
    view = await node.front.put_topic(name, TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
    return view.revision


async def _delete(node: Node, name: str, if_match: int | None = None) -> None:
    await node.front.delete_topic(name, if_match=if_match, principal=ANONYMOUS)


async def _names(node: Node) -> list[str]:
    return [view.name for view in await node.front.topics("", 1_000, counts=True, principal=ANONYMOUS)]


def test_only_an_empty_topic_goes(tmp_path: Path) -> None:
    """Refused while a message waits, is ready, is leased or was moved; then it goes, with its metrics, and its name may
    be used again. Messages that ended are still known by their ids; those of others stay."""

    async def play(node: Node) -> None:
        (other,) = (await node.front.schedule([MessageIn("u", b"1", delay_ms=60_000)], ANONYMOUS)).ids.tolist()
        (id,) = (await node.front.schedule([MessageIn("t", b"1", delay_ms=60_000)], ANONYMOUS)).ids.tolist()
        with pytest.raises(Problem, match="not-empty: 1 messages of t") as caught:
            await _delete(node, "t")
        assert caught.value.extra == {"pending": 1}
        move = node.front.reschedule
        await move(id.decode(), due_ms=None, delay_ms=0, if_match=None, principal=ANONYMOUS)
        with pytest.raises(Problem, match="not-empty"):
            await _delete(node, "t")
        (pulled,) = await node.front.pull(PullIn("t", 1, 5_000), ANONYMOUS)
        with pytest.raises(Problem, match="not-empty"):
            await _delete(node, "t")
        await node.front.ack("t", [pulled.receipt], ANONYMOUS)
        await _delete(node, "t")
        assert await _names(node) == ["u"]
        assert 'topic="t"' not in (await node.front.metrics()).decode()
        view = await node.front.message(id.decode(), local=False, principal=ANONYMOUS)
        assert (view.state, view.topic) == ("delivered", "")
        for again in (_delete(node, "t"), node.front.ack("t", [pulled.receipt], ANONYMOUS)):
            with pytest.raises(Problem, match="unknown-topic"):
                await again
        (new,) = (await node.front.schedule([MessageIn("t", b"2")], ANONYMOUS)).ids.tolist()
        (pulled,) = await node.front.pull(PullIn("t", 5, 5_000), ANONYMOUS)
        assert (pulled.id, other != new) == (new.decode(), True)

    run_node(tmp_path / "n1", play)


def test_by_revision(tmp_path: Path) -> None:
    """Another revision than the client saw is refused, nothing is done."""

    async def play(node: Node) -> None:
        revision = await _put(node, "t")
        for wrong in (0, revision + 1):
            with pytest.raises(Problem, match="revision-mismatch"):
                await _delete(node, "t", wrong)
        await _delete(node, "t", revision)
        assert await _names(node) == []

    run_node(tmp_path / "n1", play)


def test_nothing_is_lost_to_a_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages come in to the topic, and to others, while it is deleted again and again: what was acknowledged can be
    pulled from the topic of that name, each message once; and some deletes had their way."""
    monkeypatch.setattr(node.message.topic_drop, "TRIES_MAX", 40)

    async def play(node: Node) -> None:
        sent: list[str] = []
        got: list[str] = []
        busy, tried = True, asyncio.Event()

        async def produce() -> None:
            for row in range(60):
                result = await node.front.schedule([MessageIn("t", b"1"), MessageIn(f"u{row % 3}", b"1")], ANONYMOUS)
                sent.append(result.ids[0].decode())
                if row % 3 == 0:
                    await consume()
                for _ in range(row % 7):  # now and then the delete has time, or almost
                    tried.clear()
                    await tried.wait()

        async def consume() -> None:
            while len(got) < len(sent):
                pulled = await node.front.pull(PullIn("t", 100, 1_000), ANONYMOUS)
                await node.front.ack("t", [each.receipt for each in pulled], ANONYMOUS)
                got.extend(each.id for each in pulled)

        async def delete() -> int:
            done = 0
            while busy:
                result = (await asyncio.gather(_delete(node, "t"), return_exceptions=True))[0]
                done += result is None
                assert result is None or str(result).startswith(REFUSED), result
                tried.set()
                await asyncio.sleep(0)
            return done

        async with asyncio.TaskGroup() as tasks:  # nobody waits for who failed
            deleting = tasks.create_task(delete())
            await produce()
            await consume()
            busy = False
        assert deleting.result() > 0
        assert sorted(got) == sorted(sent)
        assert (await node.front.count(CountQuery(states=("delivered",)), principal=ANONYMOUS)).count == 60
        assert (await node.front.count(CountQuery(), principal=ANONYMOUS)).count == 60

    run_node(tmp_path / "n1", play)


def test_too_much_to_make_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more comes in during each count than may be looked at afterwards, it gives up and says so."""
    monkeypatch.setattr(node.message.topic_drop, "FRESH_MAX", -1)

    async def play(node: Node) -> None:
        await _put(node, "t")
        with pytest.raises(Problem, match="change-in-progress"):
            await _delete(node, "t")
        assert await _names(node) == ["t"]

    run_node(tmp_path / "n1", play)


def test_a_delete_waits_for_what_is_on_its_way_to_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others than the proposer write (a change of members, a level) was in the way of all eight tries."""

    async def play(node: Node) -> None:
        await _put(node, "t")
        sections = [Realign(node.group.machine.tick, node.group.clock.now_ms(), node.group.raft.applied_index).pack()]
        entry = encode_entry(
            group=node.group.raft.number,
            term=node.group.raft.term,
            node=1,
            now_ms=node.group.clock.now_ms(),
            sections=sections,
        )
        writer, held = node.group.driver._writer, list[Sync]()
        with monkeypatch.context() as slow:
            slow.setattr(writer, "put", held.append)
            proposed = asyncio.create_task(node.group.driver.propose(entry))
            deleting = asyncio.create_task(_delete(node, "t"))
            await asyncio.wait((deleting,), timeout=0.3)
            assert not deleting.done()
            assert not proposed.done()
        for sync in held:
            writer.put(sync)
        await deleting
        await proposed

    run_node(tmp_path / "n1", play)


def test_a_topic_is_gone_on_all_nodes(tmp_path: Path) -> None:
    """The leader of the next term knows neither it nor a message in it, and counts what the one before counted."""

    async def scene(nodes: list[Node]) -> None:
        old = await leader_of(nodes)
        await old.front.schedule([MessageIn("u", b"1", delay_ms=60_000) for _ in range(5)], ANONYMOUS)
        await _put(old, "t")
        await _delete(old, "t")
        done = await old.front.transfer(None, principal=ANONYMOUS)
        new = await leader_of(nodes, term_above=done.term_before)
        assert new is not old
        assert await _names(new) == ["u"]
        assert (await new.front.count(CountQuery(topic="u"), principal=ANONYMOUS)).count == 5
        with pytest.raises(Problem, match="no-leader"):
            await old.group.port.count(CountQuery())

    run_nodes(tmp_path, scene)
