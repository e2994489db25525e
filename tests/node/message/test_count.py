"""Counts on a whole node: held against what each message says of itself, and never more than one at a time."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import node.message.count
from api.port.port import ANONYMOUS, MessageIn
from api.port.problem import Problem
from api.port.queries import OPEN_STATES, CountQuery, HistogramBucket
from node.node import Node
from storage.format.position import HOUR_MS
from storage.hour.hour import Hour
from storage.query.count import HourCount, Tally, Total
from storage.record.record import Record
from tests.node.message.everything import everything, schedule, views_of
from tests.node.single_node import run_node

STATES = (*OPEN_STATES, "delivered", "cancelled", "dead", "expired")


async def _count(node: Node, **query: Any) -> int:
    return (await node.front.count(CountQuery(**query), principal=ANONYMOUS)).count


def test_counts_are_those_of_the_messages(tmp_path: Path) -> None:
    """Each message counts once, where it stands, in the state and at the due time that GET shows; by topic, state, tag
    and window; and the list of topics says the same."""

    async def play(node: Node) -> None:
        views = await views_of(node, await everything(node))
        assert {view.state for view in views} == set(STATES) - {"expired"}
        for states in ((state,) for state in STATES):
            expected = Counter(view.topic for view in views if view.state in states)
            for topic in "ab":
                assert await _count(node, topic=topic, states=states) == expected[topic], states
            assert await _count(node, states=states) == expected.total()
        middle = sorted(view.due_ms for view in views)[len(views) // 2]
        all_states = STATES
        for tag in ("eu", "us", "vip", "asia"):
            tagged = [view for view in views if tag in view.tags]
            assert await _count(node, tag=tag, states=all_states) == len(tagged)
            before = [view for view in tagged if view.due_ms < middle]
            assert await _count(node, tag=tag, states=all_states, to_ms=middle) == len(before)
            assert await _count(node, tag=tag, states=all_states, from_ms=middle) == len(tagged) - len(before)
        assert await _count(node) == sum(view.state in OPEN_STATES for view in views)
        listed = await node.front.topics("", 1_000, counts=True, principal=ANONYMOUS)
        for each in listed:
            assert each.counts == dict.fromkeys(STATES, 0) | Counter(
                view.state for view in views if view.topic == each.name
            )
        assert [each.counts for each in await node.front.topics("", 1_000, counts=False, principal=ANONYMOUS)] == [
            None,
            None,
        ]
        with pytest.raises(Problem, match="unknown-topic"):
            await _count(node, topic="nowhere")

    run_node(tmp_path / "n1", play)


def test_a_histogram_fills_its_window(tmp_path: Path) -> None:
    """From `from`, or the first message's multiple of the step, to `to`, or the last message; buckets between them are
    there with nothing in them; more than may be are refused."""

    async def histogram(node: Node, step_ms: int | None, **query: Any) -> list[HistogramBucket]:
        found = await node.front.histogram(CountQuery(**query), step_ms=step_ms, principal=ANONYMOUS)
        assert found.step_ms == (step_ms or HOUR_MS // 4)
        return list(found.buckets)

    async def play(node: Node) -> None:
        assert await histogram(node, 1_000) == []
        start = (node.front.now_ms() // HOUR_MS + 2) * HOUR_MS
        due = [start + minute * 60_000 + 1 for minute in (0, 0, 3, 61)]
        await schedule(node, [MessageIn("t", b"1", due_ms=each) for each in due])
        every = await histogram(node, 60_000)
        assert every == [
            HistogramBucket(start + minute * 60_000, {0: 2, 3: 1, 61: 1}.get(minute, 0)) for minute in range(62)
        ]
        assert await histogram(node, 60_000, topic="t", from_ms=start + 2, to_ms=start + 240_001) == [
            HistogramBucket(start + 2 + minute * 60_000, int(minute == 2)) for minute in range(4)
        ]
        assert await histogram(node, HOUR_MS, from_ms=start - HOUR_MS) == [
            HistogramBucket(start - HOUR_MS, 0),
            HistogramBucket(start, 3),
            HistogramBucket(start + HOUR_MS, 1),
        ]
        assert (await histogram(node, HOUR_MS, to_ms=start + 3 * HOUR_MS))[1:] == [
            HistogramBucket(start + HOUR_MS, 1),
            HistogramBucket(start + 2 * HOUR_MS, 0),
        ]
        window = {"from_ms": start - 60_000, "to_ms": start}
        assert await histogram(node, 30_000, **window) == [
            HistogramBucket(start - 60_000, 0),
            HistogramBucket(start - 30_000, 0),
        ]
        assert await histogram(node, 30_000, from_ms=start + 5 * HOUR_MS) == []
        quarters = [
            HistogramBucket(start + quarter * HOUR_MS // 4, {0: 3, 4: 1}.get(quarter, 0)) for quarter in range(5)
        ]
        chosen = {"from_ms": start + 1, "to_ms": start + 15 * HOUR_MS}
        assert (await histogram(node, None, **chosen))[:5] == quarters
        for step_ms, query in ((1_000, {}), (1_000, {"from_ms": start - 950_000, "to_ms": None})):
            with pytest.raises(Problem, match="more than 1000 buckets of 1s") as caught:
                await histogram(node, step_ms, **query)
            assert caught.value.errors[0].parameter == "step"

    run_node(tmp_path / "n1", play)


def test_a_histogram_of_whole_hours_reads_nothing(tmp_path: Path) -> None:
    """All open messages, over so long that a bucket is an hour or more: their counters are enough. Hours that a window
    cuts are read."""

    async def histogram(node: Node, **query: Any) -> tuple[int, list[HistogramBucket]]:
        found = await node.front.histogram(CountQuery(**query), step_ms=None, principal=ANONYMOUS)
        return found.step_ms, [each for each in found.buckets if each.count]

    async def play(node: Node) -> None:
        start = (node.front.now_ms() // HOUR_MS + 2) * HOUR_MS
        due = [start + hour * HOUR_MS + 77 for hour in (0, 0, 5, 24)]
        await schedule(node, [MessageIn("t", b"1", due_ms=each) for each in due])
        all_of_them = [HistogramBucket(start + hour * HOUR_MS, 1 + (hour == 0)) for hour in (0, 5, 24)]
        with patch.object(HourCount, "run", side_effect=AssertionError):
            assert await histogram(node) == (HOUR_MS, all_of_them)
            window = {"from_ms": start, "to_ms": start + 24 * HOUR_MS}
            assert await histogram(node, **window) == (HOUR_MS, all_of_them[:2])
        cut = {"from_ms": start + 78, "to_ms": start + 24 * HOUR_MS + 78}
        with patch.object(HourCount, "run", autospec=True, side_effect=HourCount.run) as read:
            assert await histogram(node, **cut) == (HOUR_MS, all_of_them[1:])
        assert read.call_count == 2  # the first hour and the last one
        assert await histogram(node, topic="t") == (HOUR_MS, all_of_them)
        within = {"from_ms": start + 1, "to_ms": start + 100}
        assert await histogram(node, **within) == (1_000, [HistogramBucket(start, 2)])

    run_node(tmp_path / "n1", play)


class _Gate:
    """Holds the reading threads up until it is opened; counts those that are inside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.entered = threading.Event(), threading.Event()
        self.inside = self.most = 0
        self.reads: list[Tally] = []  # whose each piece was
        run = HourCount.run
        gate = self

        def held(self: HourCount, tally: Tally, stopped: Callable[[], bool]) -> None:
            gate.inside += 1
            gate.reads.append(tally)
            gate.most = max(gate.most, gate.inside)
            gate.entered.set()
            while not gate.open.wait(0.01) and not stopped():
                pass
            run(self, tally, stopped)
            gate.inside -= 1

        monkeypatch.setattr(HourCount, "run", held)


def test_one_count_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of each in turn, more than may be under way are refused, and one that goes away ends before the next goes
    on. The list of topics is counted once for all who ask for it."""
    monkeypatch.setattr(node.message.count, "WAITING_MAX", 3)
    gate = _Gate(monkeypatch)

    async def play(node: Node) -> None:
        await schedule(node, [MessageIn("t", b"1", delay_ms=60_000)])
        first, *others = [asyncio.ensure_future(_count(node, topic="t")) for _ in range(3)]
        assert await asyncio.to_thread(gate.entered.wait, 10)
        with pytest.raises(Problem, match="over-limit"):
            await _count(node, topic="t")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.open.set()
        assert await asyncio.gather(*others) == [1, 1]
        assert gate.most == 1
        before = len(gate.reads)
        both = await asyncio.gather(*(node.front.topics("", 1_000, counts=True, principal=ANONYMOUS) for _ in range(2)))
        assert [each.counts["scheduled"] for views in both for each in views if each.counts] == [1, 1]
        assert len(gate.reads) == before + 1

    run_node(tmp_path / "n1", play)


def test_a_small_count_is_soon_made_beside_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of 42,000 hours were made one after the other, and one of two hours waited for minutes behind them."""
    monkeypatch.setattr(node.message.count, "PIECE_HOURS", 1)
    gate = _Gate(monkeypatch)

    async def play(node: Node) -> None:
        await schedule(node, [MessageIn("t", b"1", delay_ms=hour * 3_600_000) for hour in range(20)])
        large = [asyncio.ensure_future(_count(node, topic="t")) for _ in range(3)]
        assert await asyncio.to_thread(gate.entered.wait, 10)
        soon_ms = node.group.clock.now_ms() + 10_000
        small = asyncio.ensure_future(_count(node, topic="t", to_ms=soon_ms))
        gate.open.set()
        assert await small == 1
        assert await asyncio.gather(*large) == [20] * 3
        assert gate.most == 1
        counted = [each.count for each in gate.reads if isinstance(each, Total)]
        assert (len(counted), set(counted)) == (len(gate.reads), {1, 20})
        assert max(at for at, count in enumerate(counted) if count == 1) < 10

    run_node(tmp_path / "n1", play)


def test_a_count_reads_no_record_without_a_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Index units and states are enough; with a tag, only records whose mask may carry it."""
    read: list[Record] = []

    async def play(node: Node) -> None:
        await schedule(node, [MessageIn("t", b"1", delay_ms=60_000, tags=("eu", "us")[: row % 2]) for row in range(40)])
        records = Hour.records

        def seen(self: Hour, at: Any) -> list[Record]:
            found = records(self, at)
            read.extend(found)
            return found

        monkeypatch.setattr(Hour, "records", seen)
        assert await _count(node, topic="t", states=STATES) == 40
        assert not read
        assert await _count(node, tag="eu") == 20
        assert len(read) == 20

    run_node(tmp_path / "n1", play)


def test_no_answer_without_leadership(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that outlives the term it began in is not told; nothing of it is kept for the list of topics."""
    gate = _Gate(monkeypatch)

    async def play(node: Node) -> None:
        await schedule(node, [MessageIn("t", b"1", delay_ms=60_000)])
        asked = [
            asyncio.ensure_future(_count(node, topic="t")),
            asyncio.ensure_future(node.front.topics("", 1_000, counts=True, principal=ANONYMOUS)),
        ]
        assert await asyncio.to_thread(gate.entered.wait, 10)
        node.group.leading.stepped_down()
        gate.open.set()
        for each in asked:
            with pytest.raises(Problem, match="no-leader"):
                await each
        assert not node.group.counting._is_fresh()

    run_node(tmp_path / "n1", play)
