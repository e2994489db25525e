"""Messages that replace or extend the holders of their keys, on a whole node."""

import asyncio
import gc
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from api.port.port import ANONYMOUS, Delivery, Extend, MessageIn, PullIn, ScheduledOne, TopicChange
from api.port.problem import Problem
from node.cluster.levels import Levels
from node.node import Node
from node.write.command_queues import Section
from node.write.proposer import Proposer
from node.write.supersede_queue import Outcome, SupersedeOrder, SupersedeQueue
from storage.format.position import HOUR_MS
from storage.format.schedule_status import CONFLICT, EXTENDED, FAILED, NEW, REPLACED, REPLAYED
from storage.tables.registry import OPERATIONS
from storage.tables.topic import subscription_of
from tests.node.message.everything import put_topic, schedule, views_of
from tests.node.operation.test_cancel_many import begin, ready, stopped, wish
from tests.node.operation.test_failover import has_applied
from tests.node.operation.test_move_many import moves
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until


def keyed(
    on_conflict: str,
    body: bytes = b"1",
    delay_ms: int = HOUR_MS,
    key: str = "k",
    extend: Extend | None = None,
    topic: str = "orders",
    tags: tuple[str, ...] = (),
) -> MessageIn:
    """A message with a key; its fingerprint is its body."""
    mark = body[:16].ljust(16, b"\0")
    return MessageIn(
        topic, body, delay_ms=delay_ms, key=key, on_conflict=on_conflict, fingerprint=mark, extend=extend, tags=tags
    )


async def send(node: Node, message: MessageIn) -> ScheduledOne:
    """Schedule one."""
    return await node.front.schedule_one(message, ANONYMOUS)


async def pull(node: Node, most: int = 1, wait_ms: int = 5_000) -> list[Delivery]:
    """Pull from the topic."""
    return [*await node.front.pull(PullIn("orders", most, wait_ms, 60_000), ANONYMOUS)]


def test_each_outcome(tmp_path: Path) -> None:
    """Created, replaced, extended; what each says of the one before, and what GET says after."""

    async def play(node: Node) -> None:
        await ready(node)
        first = await send(node, keyed("replace"))
        assert (first.status, first.superseded) == (NEW, None)
        second = await send(node, keyed("replace", b"2", delay_ms=2 * HOUR_MS))
        assert second.status == REPLACED
        assert second.superseded is not None
        assert (second.superseded.id, second.superseded.attempts_made, second.superseded.prior) == (first.id, 0, "none")
        third = await send(node, keyed("extend", b"3", delay_ms=3 * HOUR_MS, tags=("eu",)))
        assert (third.status, third.id, third.due_ms - second.due_ms > HOUR_MS // 2) == (EXTENDED, second.id, True)
        assert third.superseded is not None
        assert (third.superseded.id, third.superseded.revision) == (second.id, 2)
        old, new = await views_of(node, [first.id, second.id])
        assert (old.state, new.state, new.body, [*new.tags], new.revision) == (
            "cancelled",
            "scheduled",
            b"3",
            ["eu"],
            2,
        )
        assert new.created_ms < new.due_ms == third.due_ms
        assert (await send(node, keyed("reject", b"3"))).status == REPLAYED
        assert (await send(node, keyed("reject", b"9"))).status == CONFLICT
        last = await send(node, keyed("extend", b"4", delay_ms=0, extend=Extend(due_only=True)))
        (got,) = await pull(node)
        assert (last.status, got.id, got.body) == (EXTENDED, second.id, b"3")

    run_node(tmp_path / "n1", play)


def test_a_debounce_ends(tmp_path: Path) -> None:
    """However often it is extended, it is due at the longest wait after the first request."""

    async def play(node: Node) -> None:
        await ready(node)
        wait = Extend(max_wait_ms=1_000)
        first = await send(node, keyed("extend", delay_ms=700, extend=wait))
        found: list[Delivery] = []
        while not found:
            again = await send(node, keyed("extend", delay_ms=700, extend=wait))
            if again.id == first.id:
                assert again.due_ms <= first.due_ms + 300
            found = await pull(node, wait_ms=20)
        (created,) = await views_of(node, [first.id])
        assert found[0].id == first.id
        assert 0 <= found[0].handed_over_ms - created.created_ms - 1_000 < 500

    run_node(tmp_path / "n1", play)


def test_a_leased_holder(tmp_path: Path) -> None:
    """Pulled and not in the log yet: a replace is refused, an extend makes another message."""

    async def play(node: Node) -> None:
        await ready(node)
        (held,) = await schedule(node, [keyed("reject", delay_ms=0)])
        (pulled,) = await pull(node)
        with pytest.raises(Problem, match=f"message {held} has the key: the message is handed over") as refused:
            await send(node, keyed("replace", b"2"))
        assert (refused.value.code, refused.value.extra["id"], refused.value.extra["attempt"]) == ("leased", held, 1)
        other = await send(node, keyed("extend", b"2"))
        assert (other.status, other.id != held) == (NEW, True)
        await node.front.nack("orders", [pulled.receipt], delay_ms=0, principal=ANONYMOUS)
        (again,) = await pull(node)
        assert (again.id, again.attempt) == (held, 2)
        await node.front.ack("orders", [again.receipt], ANONYMOUS)
        assert (await send(node, keyed("replace", b"3"))).status == REPLACED

    run_node(tmp_path / "n1", play)


def test_it_is_not_handed_over_meanwhile(tmp_path: Path) -> None:
    """From the look at the holder to the result."""

    async def play(node: Node) -> None:
        await ready(node)
        (held,) = await schedule(node, [keyed("reject", delay_ms=0)])
        await until(lambda: node.group.leadership.require().handing_over.ready_count == 1, what="a ready message")
        take, found = SupersedeQueue.take, list[int]()

        def checked(self: SupersedeQueue, now_ms: int) -> list[Section]:
            sections = take(self, now_ms)
            if sections:
                handing_over = node.group.leadership.require().handing_over
                made = handing_over.hand_over(subscription_of(1), 1, 60_000, now_ms, trusted=True)
                found.append(len(made.position))
            return sections

        with patch.object(SupersedeQueue, "take", checked):
            done = await send(node, keyed("replace", b"2", delay_ms=0))
        assert (found, done.status, done.superseded and done.superseded.id) == ([0], REPLACED, held)
        (got,) = await pull(node)
        assert (got.id, got.body) == (done.id, b"2")

    run_node(tmp_path / "n1", play)


def test_a_holder_of_the_same_entry_is_looked_up_again(tmp_path: Path) -> None:
    """A message that is scheduled in the same entry comes first. Its key was free at the look."""

    async def play(node: Node) -> None:
        await ready(node)
        proposer = node.group.proposer
        proposed, outcomes = proposer.supersede, list[asyncio.Future[Outcome]]()

        def noted(order: SupersedeOrder) -> asyncio.Future[Outcome]:
            outcomes.append(proposed(order))
            return outcomes[-1]

        with patch.object(proposer, "supersede", noted):
            first, done = await asyncio.gather(
                schedule(node, [keyed("reject", b"x")]), send(node, keyed("replace", b"2"))
            )
        assert [each.result().status for each in outcomes] == [FAILED, REPLACED]
        assert (done.superseded and done.superseded.id) == first[0]

    run_node(tmp_path / "n1", play)


def test_many_at_once_for_one_key(tmp_path: Path) -> None:
    """A hundred requests: one message is left of them, the last; each says which one it followed."""

    async def play(node: Node) -> None:
        await ready(node)
        done = await asyncio.gather(*(send(node, keyed("replace", b"%d" % row)) for row in range(100)))
        assert [each.status for each in done].count(NEW) == 1
        befores = [each.superseded.id for each in done if each.superseded is not None]
        assert len(set(befores)) == 99
        (left,) = {each.id for each in done} - set(befores)
        views = await views_of(node, [each.id for each in done])
        assert {view.id for view in views if view.state == "scheduled"} == {left}
        extended = await asyncio.gather(*(send(node, keyed("extend", b"%d" % row)) for row in range(100)))
        assert {each.id for each in extended} == {left}
        (view,) = await views_of(node, [left])
        assert view.revision == 101

    run_node(tmp_path / "n1", play)


def test_an_extend_counts_attempts_anew(tmp_path: Path) -> None:
    """The new content has its own policy, and is tried by it, however often the old one was."""

    async def play(node: Node) -> None:
        await ready(node)
        await put_topic(node, "orders", TopicChange(retry={"max_attempts": 2, "min_backoff_ms": 1}))
        (held,) = await schedule(node, [keyed("reject", delay_ms=0)])
        (pulled,) = await pull(node)
        await node.front.nack("orders", [pulled.receipt], delay_ms=60_000, principal=ANONYMOUS)
        for body in (b"2", b"3"):
            done = await send(node, keyed("extend", body, delay_ms=0))
            assert (done.status, done.id) == (EXTENDED, held)
            (got,) = await pull(node)
            assert got.body == body
            await node.front.nack("orders", [got.receipt], delay_ms=60_000, principal=ANONYMOUS)

    run_node(tmp_path / "n1", play)


def test_beside_operations(tmp_path: Path) -> None:
    """Of a cancel's set it has let go of its key. One that is about to move is refused, by the operation's id."""

    async def play(node: Node) -> None:
        await ready(node)
        (held,) = await schedule(node, [keyed("reject")])
        with stopped() as go:
            shift = await begin(node, moves("shift", "orders", by_ms=5, wait_s=0))
            for rule in ("replace", "extend"):
                with pytest.raises(Problem, match=f"operation {shift.id} is about to move") as refused:
                    await send(node, keyed(rule, b"2"))
                assert (refused.value.code, refused.value.extra["operation"]) == ("in-progress", shift.id)
            cancel = await begin(node, wish("orders", wait_s=0))
            done = await send(node, keyed("extend", b"2"))
            assert (done.status, done.id != held) == (NEW, True)
            go.set()
            await until(lambda: not node.group.store.catalog.of(OPERATIONS).running, what="the end")
        assert (await node.front.operation(cancel.id, principal=ANONYMOUS)).changed == 1
        assert [view.state for view in await views_of(node, [held, done.id])] == ["cancelled", "scheduled"]

    run_node(tmp_path / "n1", play)


def test_a_pull_that_waits_sees_the_new_content(tmp_path: Path) -> None:
    """Of a strict topic, whose message is leased ahead: an extend to now gives it another tag."""

    async def play(node: Node) -> None:
        await ready(node)
        await put_topic(node, "orders", TopicChange(handover="strict"))
        (held,) = await schedule(node, [keyed("reject", delay_ms=60_000, tags=("us",))])
        wanted = PullIn("orders", 1, 10_000, 60_000, tags=(("eu",),))
        pulling = asyncio.ensure_future(node.front.pull(wanted, ANONYMOUS))
        await asyncio.sleep(0)
        assert (await send(node, keyed("extend", b"2", delay_ms=0, tags=("eu",)))).status == EXTENDED
        (got,) = await pulling
        assert (got.id, got.body, [*got.tags]) == (held, b"2", ["eu"])

    run_node(tmp_path / "n1", play)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_leader_that_goes_meanwhile(tmp_path: Path, when: str) -> None:
    """Three nodes: the next leader has the whole change or nothing of it, and all nodes have the same."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await ready(leader)
        (held,) = await schedule(leader, [keyed("reject")])
        term, raft = leader.group.raft.term, leader.group.raft
        if when == "after":
            done = await send(leader, keyed("replace", b"2"))
            raft.resign()
        else:
            lost = asyncio.ensure_future(send(leader, keyed("replace", b"2")))
            await asyncio.sleep(0)  # it is in the queue, and goes into no entry
            raft.resign()
            with pytest.raises(Problem, match="no-leader"):
                await lost
        heir = await leader_of(nodes, term_above=term)
        (view,) = await views_of(heir, [held])
        again = await send(heir, keyed("extend", b"3"))
        if when == "after":
            assert (view.state, again.id, again.status) == ("cancelled", done.id, EXTENDED)
        else:
            assert (view.state, again.id, again.status) == ("scheduled", held, EXTENDED)
        for node in nodes:
            await until(partial(has_applied, node, heir.group.machine.applied_index), what="the entry")
            assert node.group.store.catalog.key(1, b"k") == heir.group.store.catalog.key(1, b"k") is not None

    run_nodes(tmp_path, scene)


def test_below_the_level_nothing_is_proposed(tmp_path: Path) -> None:
    """The refusal says which level it needs."""

    async def play(node: Node) -> None:
        for rule in ("replace", "extend"):
            with pytest.raises(Problem, match="not-supported-yet: this needs level 4"):
                await send(node, keyed(rule))
        result = await node.front.schedule([keyed("replace"), MessageIn("orders", b"1")], ANONYMOUS)
        assert ([*map(int, result.status)], result.problems[0].code) == ([FAILED, NEW], "not-supported-yet")

    with patch.object(Levels, "look", lambda self: None):
        run_node(tmp_path / "n1", play)


def test_a_message_that_cannot_be_written_leaves_the_holder(tmp_path: Path) -> None:
    """Too far ahead for the leader; of a topic that pushes nowhere."""

    async def play(node: Node) -> None:
        await ready(node)
        (held,) = await schedule(node, [keyed("reject")])
        with pytest.raises(Problem, match="beyond-max-delay"):
            await send(node, keyed("replace", b"2", delay_ms=4_000 * 86_400_000))
        (view,) = await views_of(node, [held])
        assert view.state == "scheduled"

    run_node(tmp_path / "n1", play)


def test_nobody_waits_for_a_refusal_any_more(tmp_path: Path) -> None:
    """Seed 402 of the simulator: the client had gone when its message was refused, and the node took the error that
    nobody heard for one of its own."""
    unheard: list[object] = []

    async def play(node: Node) -> None:
        await ready(node)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
        with patch.object(Proposer, "kick", lambda self: None):  # it stays in the queue
            calling = asyncio.ensure_future(send(node, keyed("replace")))
            await until(lambda: bool(node.group.proposer._supersedes._waiting), what="a message in the queue")
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            node.group.proposer._supersedes.refuse()
        gc.collect()

    run_node(tmp_path / "n1", play)
    assert unheard == []
