"""Shifts, releases, redrives and resends on a whole node: what each takes, what it leaves, and the moves it makes."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from api.port.message import MessageView
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from api.port.problem import Problem
from api.port.queries import CountQuery, OperationIn
from node.node import Node
from node.operation import finder, work
from storage.format.position import HOUR_MS
from tests.node.message.everything import everything, schedule, views_of
from tests.node.operation.test_cancel_many import begin, done, ready, stopped, wish
from tests.node.single_node import run_node
from tests.waiting import until

OPEN = ("scheduled", "ready")
NOTHING = {"leased": 0, "settled": 0, "gone": 0, "key_taken": 0}


def moves(kind: Any, *topics: str, wait_s: float = 30, **more: Any) -> OperationIn:
    """Such an operation."""
    return msgspec.structs.replace(wish(*topics, wait_s=wait_s), kind=kind, **more)


@dataclass
class Wanted:
    """An operation, and which messages it takes."""

    asked: OperationIn
    states: tuple[str, ...]

    def takes(self, view: MessageView) -> bool:
        """Whether it matches."""
        asked, at_ms = self.asked, view.due_ms if view.state in (*OPEN, "leased") else view.asked_due_ms
        return (
            view.state in (*self.states, "leased")
            and (view.state != "leased" or "scheduled" in self.states)
            and (asked.topics is None or view.topic in asked.topics)
            and (asked.from_ms is None or at_ms >= asked.from_ms)
            and (asked.to_ms is None or at_ms < asked.to_ms)
            and (asked.tag is None or asked.tag in view.tags)
        )


@pytest.mark.parametrize("rows", [1, 7, 4_000])
@pytest.mark.parametrize("which", ["shift", "shift-to", "release", "window", "redrive", "resend", "resend-window"])
def test_exactly_what_matches_is_moved(tmp_path: Path, which: str, rows: int) -> None:
    """Of messages in every state, over three hours, some of them moved before: what is in the wanted state, and nothing
    else. In chunks of any size, found a few at a time."""

    async def play(node: Node) -> None:
        await ready(node)
        ids = await everything(node)
        before, now_ms = await views_of(node, ids), node.front.now_ms()
        window = {"from_ms": now_ms - HOUR_MS, "to_ms": now_ms + HOUR_MS // 2}
        wanted = {
            "shift": Wanted(moves("shift", "a", by_ms=30 * HOUR_MS), OPEN),
            "shift-to": Wanted(moves("shift", "a", "b", to_due_ms=now_ms + 9 * HOUR_MS), OPEN),
            "release": Wanted(moves("release", "a", tag="eu"), OPEN),
            "window": Wanted(moves("shift", "b", by_ms=-HOUR_MS, from_ms=now_ms + HOUR_MS // 2), OPEN),
            "redrive": Wanted(moves("redrive", "a"), ("dead",)),
            "resend": Wanted(moves("resend", "a"), ("delivered",)),
            "resend-window": Wanted(moves("resend", "a", **window), ("delivered",)),
        }[which]
        matching = [view for view in before if wanted.takes(view)]
        leased = sum(view.state == "leased" for view in matching)
        dry = await begin(node, msgspec.structs.replace(wanted.asked, dry_run=True))
        assert dry.matched == len(matching)
        with patch.object(work, "CHUNK_MOVES", rows), patch.object(finder, "FOUND_ROWS", rows):
            told = await begin(node, wanted.asked)
        assert (told.state, told.matched, told.changed) == ("done", len(matching), len(matching) - leased)
        assert told.skipped == {**NOTHING, "leased": leased}
        known = sum(view.attempt > 0 for view in matching if view.state != "leased")
        assert told.prior == {"none": told.changed - known, "known": known, "unknown": 0}
        taken = {view.id for view in matching if view.state != "leased"}
        after = await views_of(node, ids)
        for was, now in zip(before, after, strict=True):
            if was.id in taken:
                check_moved(wanted.asked, was, now, now_ms)
            else:
                assert (now.state, now.due_ms, now.revision) == (was.state, was.due_ms, was.revision), was
        assert told.changed > 1

    run_node(tmp_path / "n1", play)


def check_moved(asked: OperationIn, was: MessageView, now: MessageView, now_ms: int) -> None:
    """It is where the operation was to bring it."""
    assert (now.attempt, now.id) == (was.attempt, was.id)
    if asked.kind in ("shift", "release"):
        assert now.revision == was.revision + 1
    if asked.by_ms is not None:
        wanted_ms = was.due_ms + asked.by_ms
    elif asked.to_due_ms is not None:
        wanted_ms = asked.to_due_ms
    else:
        wanted_ms = 0
    if wanted_ms > now_ms + 60_000:
        assert (now.state, now.due_ms, now.asked_due_ms) == ("scheduled", wanted_ms, wanted_ms)
    else:
        assert now.state == "ready"
        assert now_ms <= now.asked_due_ms <= now.due_ms < now_ms + 60_000


async def pull(node: Node, count: int, topic: str = "orders", wait_ms: int = 5_000) -> list[Delivery]:
    """So many messages of a topic."""
    pulled: list[Delivery] = []
    while len(pulled) < count:
        found = await node.front.pull(PullIn(topic, count - len(pulled), wait_ms, 60_000), ANONYMOUS)
        assert found, f"{len(pulled)} of {count} came"
        pulled += found
    return pulled


@pytest.mark.parametrize("kind", ["release", "shift"])
def test_what_becomes_due_at_once_comes_in_the_order_of_the_due_times_before(tmp_path: Path, kind: str) -> None:
    """Whatever order they were scheduled in, over hours, in many chunks."""

    async def play(node: Node) -> None:
        await ready(node)
        later = [HOUR_MS + 7_919 * row % 1_000 * 20_000 for row in range(300)]
        ids = await schedule(node, [MessageIn("orders", b"1", delay_ms=ms) for ms in later])
        to = {"to_due_ms": node.front.now_ms()} if kind == "shift" else {}
        with patch.object(work, "CHUNK_MOVES", 11), patch.object(finder, "FOUND_ROWS", 40):
            told = await begin(node, moves(kind, "orders", **to))
        assert told.changed == 300
        dues = dict(zip(ids, later, strict=True))
        came = [dues[each.id] for each in await pull(node, 300)]
        assert came == sorted(came)

    run_node(tmp_path / "n1", play)


def test_meanwhile(tmp_path: Path) -> None:
    """Before the first chunk: nothing of the set goes out, GET says what holds it, PATCH is refused, DELETE cancels.
    Another one over the same messages is refused, with its id."""

    async def play(node: Node) -> None:
        await ready(node)
        ids = await schedule(node, [MessageIn("orders", b"1") for _ in range(4)])
        (far,) = await schedule(node, [MessageIn("orders", b"2", delay_ms=HOUR_MS)])
        with stopped() as go:
            runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, wait_s=0))
            (new,) = await schedule(node, [MessageIn("orders", b"3")])
            assert [each.id for each in await pull(node, 1)] == [new]
            assert [*await node.front.pull(PullIn("orders", 9, 500, 60_000), ANONYMOUS)] == []
            held = [view.held for view in await views_of(node, [*ids, far])]
            assert {(each.by, each.since_ms) for each in held[:4] if each} == {("operation", runs.begun_ms)}
            assert held[4] is None, "it is not due yet"
            with pytest.raises(Problem, match=runs.id) as refused:
                await node.front.reschedule(far, due_ms=None, delay_ms=5, if_match=None, principal=ANONYMOUS)
            assert (refused.value.code, refused.value.extra["operation"]) == ("in-progress", runs.id)
            with pytest.raises(Problem, match=runs.id) as refused:
                await begin(node, moves("release", "orders"))
            assert (refused.value.code, refused.value.extra["operation"]) == ("in-progress", runs.id)
            await node.front.cancel(ids[0], if_match=None, principal=ANONYMOUS)
            go.set()
            await until(lambda: done(node, runs.id), what="the end")
        told = await node.front.operation(runs.id, principal=ANONYMOUS)
        assert (told.matched, told.changed, told.skipped) == (5, 4, {**NOTHING, "settled": 1})
        assert [view.state for view in await views_of(node, ids)] == ["cancelled", *["scheduled"] * 3]

    run_node(tmp_path / "n1", play)


def test_what_ends_after_the_begin_is_of_no_set(tmp_path: Path) -> None:
    """A message that is acked between the entry of a resend and its chunks is not sent again."""

    async def play(node: Node) -> None:
        await ready(node)
        first, second = await schedule(node, [MessageIn("orders", b"1"), MessageIn("orders", b"2")])
        receipts = {each.id: each.receipt for each in await pull(node, 2)}
        await node.front.ack("orders", [receipts[first]], ANONYMOUS)
        with stopped() as go:
            runs = await begin(node, moves("resend", "orders", wait_s=0))
            await node.front.ack("orders", [receipts[second]], ANONYMOUS)
            go.set()
            await until(lambda: done(node, runs.id), what="the end")
        told = await node.front.operation(runs.id, principal=ANONYMOUS)
        assert (told.matched, told.changed) == (1, 1)
        (again,) = await pull(node, 1)
        assert (again.id, again.attempt) == (first, 2)
        assert await node.front.ack("orders", [receipts[first], again.receipt], ANONYMOUS) == ["acked", "acked"]

    run_node(tmp_path / "n1", play)


def test_many_receipts_that_settled_stay_acked(tmp_path: Path) -> None:
    """Also more in one request than are judged by the log alone, and after the second delivery was acked."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1") for _ in range(9)])
        receipts = [each.receipt for each in await pull(node, 9)]
        await node.front.ack("orders", receipts, ANONYMOUS)
        assert (await begin(node, moves("resend", "orders"))).changed == 9
        assert await node.front.ack("orders", receipts, ANONYMOUS) == ["acked"] * 9
        again = [each.receipt for each in await pull(node, 9)]
        assert await node.front.ack("orders", [*receipts, *again], ANONYMOUS) == ["acked"] * 18
        assert await node.front.ack("orders", receipts, ANONYMOUS) == ["acked"] * 9

    run_node(tmp_path / "n1", play)


def test_a_redrive_by_reason(tmp_path: Path) -> None:
    """Only the dead of that reason. A word that is no reason is refused."""

    async def play(node: Node) -> None:
        await ready(node)
        ids = await everything(node)
        dead = [view.id for view in await views_of(node, ids) if view.state == "dead"]
        for reason, matched in (("http-503", 0), ("timeout", 0), ("nacked", len(dead))):
            assert (await begin(node, moves("redrive", "a", reason=reason, dry_run=True))).matched == matched
        with pytest.raises(Problem, match='reason: "hunger" is no reason of death') as refused:
            await begin(node, moves("redrive", "a", reason="hunger"))
        assert [each.pointer for each in refused.value.errors] == ["/reason"]
        assert (await begin(node, moves("redrive", "a", reason="nacked"))).changed == len(dead) > 1

    run_node(tmp_path / "n1", play)


def test_beyond_the_longest_delay(tmp_path: Path) -> None:
    """By an instant, or by a way."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS)])
        far_ms = 3_651 * 24 * HOUR_MS
        for more, pointer in (({"to_due_ms": node.front.now_ms() + far_ms}, "/to_due"), ({"by_ms": far_ms}, "/by")):
            with pytest.raises(Problem, match="beyond-max-delay") as refused:
                await begin(node, moves("shift", "orders", **more))
            assert [each.pointer for each in refused.value.errors] == [pointer]

    run_node(tmp_path / "n1", play)


def test_paused_resumed_and_aborted(tmp_path: Path) -> None:
    """A paused one holds its messages; it goes on where it stood. What an aborted one left is handed over again."""

    async def change(node: Node, id: str, verb: Any) -> str:
        return (await node.front.change_operation(id, verb, principal=ANONYMOUS)).state

    async def play(node: Node) -> None:
        await ready(node)
        ids = await schedule(node, [MessageIn("orders", b"1", delay_ms=1_500) for _ in range(40)])
        runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, rate=10, wait_s=0))
        assert await change(node, runs.id, "pause") == "paused"
        stands = await node.front.operation(runs.id, principal=ANONYMOUS)
        assert [*await node.front.pull(PullIn("orders", 9, 2_500, 60_000), ANONYMOUS)] == []
        assert await node.front.operation(runs.id, principal=ANONYMOUS) == stands
        assert await change(node, runs.id, "resume") == "running"
        await until(partial(further, node, runs.id, stands.changed), what="it goes on")
        assert await change(node, runs.id, "abort") == "aborted"
        told = await node.front.operation(runs.id, principal=ANONYMOUS)
        assert (told.matched, told.skipped, told.ended_ms is not None) == (told.changed, NOTHING, True)
        assert 0 < told.changed < 40
        assert told.progress < 1
        assert len(await pull(node, 40 - told.changed)) == 40 - told.changed
        assert [view.state for view in await views_of(node, ids)].count("scheduled") == told.changed
        for verb in ("pause", "resume", "abort"):
            with pytest.raises(Problem, match="already-settled: the operation is aborted"):
                await change(node, runs.id, verb)
        with pytest.raises(Problem, match="unknown-operation"):
            await change(node, "op-9", "pause")
        with stopped():
            stops = await begin(node, wish("orders", wait_s=0))
            with pytest.raises(Problem, match="already-settled: a cancel"):
                await change(node, stops.id, "abort")

    run_node(tmp_path / "n1", play)


def further(node: Node, id: str, than: int) -> bool:
    """Whether it has changed more."""
    return node.group.port._operations.one(id).changed > than


def test_one_that_was_paused_too_long_goes_on(tmp_path: Path) -> None:
    """By itself, after PAUSE_MAX_MS."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS) for _ in range(9)])
        with patch.object(work, "PAUSE_MAX_MS", 300), stopped() as go:
            runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, wait_s=0))
            await node.front.change_operation(runs.id, "pause", principal=ANONYMOUS)
            go.set()
            await until(lambda: done(node, runs.id), what="the end")
        assert (await node.front.operation(runs.id, principal=ANONYMOUS)).changed == 9

    run_node(tmp_path / "n1", play)


def test_a_rate_is_kept(tmp_path: Path) -> None:
    """No more than so many a second, by what the answers say; another operation beside it is not slowed down."""

    async def play(node: Node) -> None:
        await ready(node)
        for topic in ("orders", "bills"):
            await schedule(node, [MessageIn(topic, b"1", delay_ms=HOUR_MS) for _ in range(60)])
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, rate=40, wait_s=0))
        assert (await begin(node, moves("shift", "bills", by_ms=HOUR_MS))).changed == 60
        assert not done(node, runs.id)
        for changed in (20, 40):
            await until(partial(further, node, runs.id, changed), what=f"more than {changed}")
            told = node.group.port._operations.one(runs.id).changed
            assert told <= 40 * (loop.time() - begun_s) + 3
        await until(lambda: done(node, runs.id), what="the end")
        assert loop.time() - begun_s >= 58 / 40

    run_node(tmp_path / "n1", play)


def test_large_messages_go_a_few_at_a_time(tmp_path: Path) -> None:
    """Each is copied on every node."""

    async def play(node: Node) -> None:
        await ready(node)
        for _ in range(2):
            await schedule(node, [MessageIn("orders", b'"' + b"x" * 250_000 + b'"', delay_ms=HOUR_MS)] * 12)
        before = node.group.proposer.entries
        assert (await begin(node, moves("shift", "orders", by_ms=HOUR_MS))).changed == 24
        assert node.group.proposer.entries - before >= 3
        assert (await node.front.count(CountQuery(topic="orders"), principal=ANONYMOUS)).count == 24

    run_node(tmp_path / "n1", play)
