"""A cancel of many messages on a whole node: what it takes, what it leaves, and what clients see meanwhile."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import CountQuery, OperationIn, OperationView
from node.node import Node
from node.operation import work
from node.operation.work import OperationWork
from storage.format.position import HOUR_MS
from storage.format.predicate import tags_mask
from storage.tables.running_set import RunningSet
from tests.node.message.everything import everything, put_topic, schedule, views_of
from tests.node.single_node import run_node
from tests.waiting import until

OPEN = ("scheduled", "ready")


def wish(
    *topics: str,
    from_ms: int | None = None,
    to_ms: int | None = None,
    tag: str | None = None,
    confirm: int | None = None,
    dry_run: bool = False,
    wait_s: float = 30,
) -> OperationIn:
    """A cancel; without topics of all of them."""
    return OperationIn(
        kind="cancel", topics=topics or None, from_ms=from_ms, to_ms=to_ms, tag=tag, confirm=confirm, dry_run=dry_run,
        wait_s=wait_s,
    )  # fmt: skip


async def begin(node: Node, what: OperationIn) -> OperationView:
    """Begin it."""
    return await node.front.begin_operation(what, principal=ANONYMOUS)


async def ready(node: Node) -> None:
    """Wait until the cluster's level has operations."""
    await until(lambda: node.group.machine.level >= 4, what="level 4")


@contextmanager
def stopped() -> Iterator[asyncio.Event]:
    """No chunk is made until the event is set."""
    go = asyncio.Event()
    change = OperationWork._change

    async def waits(self: OperationWork, each: RunningSet) -> None:
        await go.wait()
        await change(self, each)

    with patch.object(OperationWork, "_change", waits):
        yield go


@pytest.mark.parametrize("rows", [1, 7, 4_000])
@pytest.mark.parametrize("which", ["topic", "window", "tag", "topics", "all"])
def test_exactly_what_matches_is_cancelled(tmp_path: Path, which: str, rows: int) -> None:
    """Of messages in every state, over three hours, some of them moved: what is open and not leased, and nothing
    else."""

    async def play(node: Node) -> None:
        await ready(node)
        ids = await everything(node)
        before = await views_of(node, ids)
        now_ms = node.front.now_ms()
        from_ms, to_ms = now_ms + HOUR_MS // 2, now_ms + 2 * HOUR_MS
        asked = {
            "topic": wish("a"),
            "window": wish("b", from_ms=from_ms, to_ms=to_ms),
            "tag": wish("a", tag="eu"),
            "topics": wish("b", "a", to_ms=to_ms),
            "all": wish(),
        }[which]
        matching = [
            view
            for view in before
            if (asked.topics is None or view.topic in asked.topics)
            and (asked.from_ms is None or view.due_ms >= asked.from_ms)
            and (asked.to_ms is None or view.due_ms < asked.to_ms)
            and (asked.tag is None or asked.tag in view.tags)
            and view.state in (*OPEN, "leased")
        ]
        if which == "all":
            with pytest.raises(Problem, match=f"{len(matching)} messages match now, and confirm is missing"):
                await begin(node, asked)
            asked = wish(confirm=len(matching))
        leased = sum(view.state == "leased" for view in matching)
        attempted = sum(view.state != "leased" and view.attempt > 0 for view in matching)
        with patch.object(work, "CHUNK_ROWS", rows):
            done = await begin(node, asked)
        free = len(matching) - leased
        assert (done.state, done.matched, done.changed) == ("done", len(matching), free)
        assert done.prior == {"none": free - attempted, "known": attempted, "unknown": 0}
        assert done.skipped == {"leased": leased, "settled": 0, "gone": 0, "key_taken": 0}
        taken = {view.id for view in matching if view.state != "leased"}
        for was, now in zip(before, await views_of(node, ids), strict=True):
            assert now.state == ("cancelled" if was.id in taken else was.state), was
        assert await node.front.operation(done.id, principal=ANONYMOUS) == done
        assert len(taken) > 2

    run_node(tmp_path / "n1", play)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    """It counts, and leaves no operation."""

    async def play(node: Node) -> None:
        await ready(node)
        await everything(node)
        query = CountQuery(topic="a")
        count = (await node.front.count(query, principal=ANONYMOUS)).count
        assert (await begin(node, wish("a", dry_run=True))).matched == count > 0
        assert (await node.front.count(query, principal=ANONYMOUS)).count == count
        assert (await node.front.operations(None, 10, principal=ANONYMOUS)).items == []

    run_node(tmp_path / "n1", play)


def test_from_its_answer_on_nothing_goes_out(tmp_path: Path) -> None:
    """Before the first chunk: pulls get nothing of the set, GET says cancelled, DELETE too and is counted, a reschedule
    is refused. What is scheduled later, and what is of another topic, goes out."""

    async def play(node: Node) -> None:
        await ready(node)
        ids = await schedule(node, [MessageIn("orders", b"1") for _ in range(5)])
        late = await schedule(node, [MessageIn("orders", b"2", delay_ms=HOUR_MS) for _ in range(3)])
        (other,) = await schedule(node, [MessageIn("bills", b"3")])
        with stopped() as go:
            runs = await begin(node, wish("orders", wait_s=0.05))
            assert (runs.state, runs.matched, runs.changed, runs.ended_ms) == ("running", None, 0, None)
            (new,) = await schedule(node, [MessageIn("orders", b"4")])
            pulled = [*await node.front.pull(PullIn("orders", 100, 2_000, 30_000), ANONYMOUS)]
            pulled += await node.front.pull(PullIn("bills", 100, 2_000, 30_000), ANONYMOUS)
            assert [each.id for each in pulled] == [new, other]
            views = await views_of(node, [*ids, *late])
            assert {(view.state, view.settled_ms, view.held) for view in views} == {("cancelled", runs.begun_ms, None)}
            cancelled = await node.front.cancel(ids[0], if_match=None, principal=ANONYMOUS)
            assert (cancelled.attempts_made, cancelled.prior) == (0, "none")
            with pytest.raises(Problem, match="already-settled"):
                await node.front.reschedule(late[0], due_ms=None, delay_ms=5, if_match=None, principal=ANONYMOUS)
            assert (await node.front.operation(runs.id, principal=ANONYMOUS)).changed == 1
            deleting = asyncio.ensure_future(node.front.delete_topic("bills", if_match=None, principal=ANONYMOUS))
            with pytest.raises(Problem, match="not-empty"):
                await deleting
            go.set()
            await until(lambda: done(node, runs.id), what="the end")
        ended = await node.front.operation(runs.id, principal=ANONYMOUS)
        assert (ended.state, ended.matched, ended.changed) == ("done", 8, 8)
        assert [view.state for view in await views_of(node, [*ids, *late])] == ["cancelled"] * 8

    run_node(tmp_path / "n1", play)


def done(node: Node, id: str) -> bool:
    """Whether the operation has ended."""
    return node.group.port._operations.one(id).state == "done"


def test_a_consumer_that_has_a_message_decides(tmp_path: Path) -> None:
    """Its ack ends the message; its nack, which would try it again, cancels it."""

    async def play(node: Node) -> None:
        await ready(node)
        await put_topic(node, "orders", TopicChange(retry={"max_attempts": 9, "min_backoff_ms": 1_000}))
        ids = await schedule(node, [MessageIn("orders", b"1") for _ in range(3)])
        pulled = [*await node.front.pull(PullIn("orders", 3, 5_000, 60_000), ANONYMOUS)]
        while len(pulled) < 3:
            pulled += await node.front.pull(PullIn("orders", 3 - len(pulled), 5_000, 60_000), ANONYMOUS)
        by_id = {each.id: each.receipt for each in pulled}
        with stopped() as go:
            runs = await begin(node, wish("orders", wait_s=0))
            assert {view.state for view in await views_of(node, ids)} == {"leased"}
            assert await node.front.ack("orders", [by_id[ids[0]]], ANONYMOUS) == ["acked"]
            nacked = await node.front.nack("orders", [by_id[ids[1]]], delay_ms=0, principal=ANONYMOUS)
            assert nacked == ["nacked"]
            with pytest.raises(Problem, match="leased"):
                await node.front.cancel(ids[2], if_match=None, principal=ANONYMOUS)
            go.set()
            await until(lambda: done(node, runs.id), what="the end")
        ended = await node.front.operation(runs.id, principal=ANONYMOUS)
        assert (ended.matched, ended.changed, ended.prior["known"]) == (3, 1, 1)
        assert (ended.skipped["leased"], ended.skipped["settled"]) == (1, 1)
        assert [view.state for view in await views_of(node, ids)] == ["delivered", "cancelled", "leased"]

    run_node(tmp_path / "n1", play)


def test_a_strict_push_that_is_leased_ahead_is_taken_back(tmp_path: Path) -> None:
    """It is cancelled, not skipped: its push never begins."""

    async def play(node: Node) -> None:
        await ready(node)
        change = TopicChange(mode="push", handover="strict", target={"url": "http://127.0.0.1:9/"})
        await put_topic(node, "orders", change)
        ids = await schedule(node, [MessageIn("orders", b"1", delay_ms=1_000) for _ in range(5)])
        strict = node.group.leadership.term
        assert strict is not None
        await until(lambda: strict.handing_over.strict.waiting == 5, what="five pushes leased ahead")
        ended = await begin(node, wish("orders"))
        assert (ended.matched, ended.changed, ended.prior) == (5, 5, {"none": 5, "known": 0, "unknown": 0})
        assert {(view.state, view.attempt) for view in await views_of(node, ids)} == {("cancelled", 0)}

    run_node(tmp_path / "n1", play)


def test_many_run_and_one_too_many_is_refused(tmp_path: Path) -> None:
    """The seventeenth; the answer names the oldest. Pages show the newest first."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS)])
        with stopped() as go:
            runs = [await begin(node, wish("orders", wait_s=0)) for _ in range(16)]
            with pytest.raises(Problem, match=runs[0].id) as refused:
                await begin(node, wish("orders", wait_s=0))
            assert refused.value.code == "over-limit"
            first = await node.front.operations(None, 10, principal=ANONYMOUS)
            assert [each.id for each in first.items] == [each.id for each in reversed(runs[6:])]
            rest = await node.front.operations(first.next_cursor, 10, principal=ANONYMOUS)
            assert ([each.id for each in rest.items], rest.next_cursor) == (
                [each.id for each in reversed(runs[:6])],
                None,
            )
            go.set()
            await until(lambda: all(done(node, each.id) for each in runs), what="the end")
        ended = [await node.front.operation(each.id, principal=ANONYMOUS) for each in runs]
        assert [each.changed for each in ended] == [1] + [0] * 15
        for id in ("op-1", "nonsense"):
            with pytest.raises(Problem, match="unknown-operation"):
                await node.front.operation(id, principal=ANONYMOUS)
        with pytest.raises(Problem, match="cursor"):
            await node.front.operations("nonsense", 10, principal=ANONYMOUS)

    run_node(tmp_path / "n1", play)


def test_a_topic_is_deleted_behind_the_operation(tmp_path: Path) -> None:
    """DELETE waits for the chunks, and then finds nothing open."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS) for _ in range(9)])
        with stopped() as go:
            await begin(node, wish("orders", wait_s=0))
            deleting = asyncio.ensure_future(node.front.delete_topic("orders", if_match=None, principal=ANONYMOUS))
            await asyncio.wait([deleting], timeout=0.1)
            assert not deleting.done()
            go.set()
            await deleting
        assert node.group.store.catalog.topics() == []

    run_node(tmp_path / "n1", play)


def test_what_only_looks_like_the_tag_waits_for_the_end(tmp_path: Path) -> None:
    """Before a hand-over the masks decide. The record decides what is cancelled. Other tags go out at once."""
    wanted = tags_mask([b"eu"])
    alike = next(tags for n in count() if tags_mask(tags := names(n)) & wanted == wanted)

    async def play(node: Node) -> None:
        await ready(node)
        tags = tuple(tag.decode() for tag in alike)
        messages = [MessageIn("orders", b"1", tags=each) for each in (tags, ("us",), ("eu",))]
        like, other, ours = await schedule(node, messages)
        with stopped() as go:
            runs = await begin(node, wish("orders", tag="eu", wait_s=0))
            pulled = [*await node.front.pull(PullIn("orders", 9, 2_000, 30_000), ANONYMOUS)]
            assert [each.id for each in pulled] == [other]
            assert [view.state for view in await views_of(node, [like, ours])] == ["ready", "cancelled"]
            go.set()
            await until(lambda: done(node, runs.id), what="the end")
        (last,) = await node.front.pull(PullIn("orders", 9, 5_000, 30_000), ANONYMOUS)
        assert last.id == like
        assert (await node.front.operation(runs.id, principal=ANONYMOUS)).matched == 1

    run_node(tmp_path / "n1", play)


def names(number: int) -> list[bytes]:
    """Sixteen tags, others for each number."""
    return [f"{number}-{each}".encode() for each in range(16)]
