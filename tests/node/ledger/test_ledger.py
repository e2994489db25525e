"""The ledger on whole nodes: what is missing is named, damage on the way is no silence, and pages belong together."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from api.port.ledger import LedgerQuery, LedgerSummary, RecordsAsked, RecordsFound
from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from ledger.bucket import SPAN, Rows
from node.ledger.judge import COVER_AFTER_MS
from node.node import Node
from storage.format.position import EVER_MS
from tests.node.single_node import run_node, run_node_in
from tests.node.skewed_nodes import Skewed
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until

EVER = LedgerQuery(from_ms=0, to_ms=1 << 42)


async def handed_over(node: Node, count: int) -> list[str]:
    """Ids of so many messages that were pulled and acked."""
    result = await node.front.schedule([MessageIn("t", b"1") for _ in range(count)], ANONYMOUS)
    deliveries = await node.front.pull(PullIn("t", count, 5_000), ANONYMOUS)
    await node.front.ack("t", [each.receipt for each in deliveries], ANONYMOUS)
    return [bytes(id).decode() for id in result.ids]


def test_a_member_whose_answer_is_damaged_or_refused_is_named(tmp_path: Path, way: str) -> None:
    """What it alone could tell is unknown; nothing counts as lost for that. One that would have to look at too much
    makes the whole answer `over-limit`, with its name."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await handed_over(leader, 3)
        bad, other = (node for node in nodes if node is not leader)
        name = bad.config.node_id

        def answers(how: Callable[[RecordsAsked], Coroutine[Any, Any, RecordsFound]]) -> None:
            bad.front.hand_over_records = how  # type: ignore[assignment, method-assign]
            bad.group.port.records = how  # type: ignore[assignment, method-assign]

        async def damaged(asked: RecordsAsked) -> RecordsFound:
            return RecordsFound(name, bad.group.members.number, b"\x01" * 80, b"")

        async def refused(asked: RecordsAsked) -> RecordsFound:
            raise Problem("draining", "not now")

        async def too_much(asked: RecordsAsked) -> RecordsFound:
            raise Problem("over-limit", "more than 5 records lie in that time")

        async def summed_up() -> LedgerSummary | None:
            """As soon as the other one can be reached: a busy machine may lose the connections of a founding."""
            summary = await leader.front.ledger_summary(EVER)
            return None if other.config.node_id in summary.sight.unreachable else summary

        for how, why in ((damaged, "damaged"), (refused, "503" if way == "http" else "refused: not now")):
            answers(how)
            summary = await until(summed_up)
            assert summary.sight.unreachable.keys() == {name}
            assert why in summary.sight.unreachable[name]
            assert (summary.counts["classes"]["delivered_once"], summary.counts["classes"]["lost"]) == (3, 0)
        answers(too_much)
        with pytest.raises(Problem, match=f"{name}: more than 5 records"):
            await leader.front.ledger_summary(EVER)

    run_nodes(tmp_path, scene)


def test_hand_overs_of_a_node_that_is_no_member_are_known_to_be_missing(tmp_path: Path) -> None:
    """Its number stands in the records, and nobody can be asked."""

    async def play(node: Node) -> None:
        node.group.proposer.node = node.group.delivery_log.node = 7
        (id,) = await handed_over(node, 1)
        summary = await node.front.ledger_summary(EVER)
        assert summary.sight.unreachable == {"number 7": "made hand-overs, and is no member any more"}
        assert (await node.front.message_ledger(id)).entry.kind == "delivered_once"

    run_node(tmp_path / "n1", play)


def test_pages_have_every_message_once_and_a_topic_has_its_own(tmp_path: Path) -> None:
    """Whatever the limit: many of them fall due at the same millisecond."""

    async def play(node: Node) -> None:
        ids = await handed_over(node, 12)
        await node.front.schedule([MessageIn("u", b"1", delay_ms=ms % 3) for ms in range(9)], ANONYMOUS)
        for limit in (1, 5, 21, 100):
            seen: list[str] = []
            cursor = None
            while True:
                query = LedgerQuery(from_ms=0, to_ms=1 << 42, limit=limit, cursor=cursor)
                page = await node.front.ledger(query)
                assert len(page.items) <= limit
                seen += [entry.id for entry in page.items]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert len(seen) == len(set(seen)) == 21
        of_topic = await node.front.ledger(LedgerQuery(from_ms=0, to_ms=1 << 42, topic="t"))
        assert {entry.id for entry in of_topic.items} == set(ids)
        with pytest.raises(Problem, match="no topic is named v"):
            await node.front.ledger(LedgerQuery(from_ms=0, to_ms=1, topic="v"))
        with pytest.raises(Problem, match="cursor"):
            await node.front.ledger(LedgerQuery(from_ms=0, to_ms=1, cursor="x"))

    run_node(tmp_path / "n1", play)


def test_a_search_that_nobody_waits_for_any_more_ends_before_the_next_one(tmp_path: Path) -> None:
    """Its caller went away; the one that waited behind it has its turn."""

    async def play(node: Node) -> None:
        await handed_over(node, 2)
        asked = RecordsAsked(bytes(8), 0, 1 << 42)
        first = asyncio.ensure_future(node.front.hand_over_records(asked))
        second = asyncio.ensure_future(node.front.hand_over_records(asked))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).number == 1
        assert first.cancelled()

    run_node(tmp_path / "n1", play)


def test_a_gap_that_nobody_tells_the_end_of_is_shown_once_up_to_about_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is no time that can be written. Every piece of a window finds it at a moment of its own."""
    monkeypatch.setattr("node.ledger.ledger.PIECE", 1)

    def endless(terms: Rows, window_ms: int) -> Rows:
        return np.array([(0, 0, 0, 5, EVER_MS)], SPAN)

    monkeypatch.setattr("node.ledger.judge.unrecorded", endless)

    async def scene(node: Node) -> None:
        for _ in range(3):
            await handed_over(node, 1)
        since_ms = node.group.clock.now_ms()
        summary = await node.front.ledger_summary(EVER)
        assert summary.counts["scheduled"] == 3
        ((name, from_ms, until_ms),) = summary.sight.gaps
        assert (name, from_ms) == ("", 5)
        assert since_ms <= until_ms <= node.group.clock.now_ms() + COVER_AFTER_MS
        assert not summary.sight.complete

    run_node(tmp_path, scene)


def test_what_a_leader_that_was_ahead_did_is_not_lost_until_its_time_has_come(tmp_path: Path) -> None:
    """Its node is back, with a right clock: no account is searched for times to come. It said `lost`, `complete`."""
    ids: list[str] = []

    async def ahead(node: Node) -> None:
        ids.extend(await handed_over(node, 1))

    async def right(node: Node) -> None:
        found = await node.front.message_ledger(ids[0])
        assert (found.entry.kind, "records_missing" in found.entry.flags) == ("delivered", True)
        assert not found.sight.complete

    run_node_in(Skewed(30.0), tmp_path, ahead)
    run_node(tmp_path, right)


def test_b16_ledgers_that_many_ask_for_wait_their_turn(tmp_path: Path) -> None:
    """32 clients that asked without end were refused 2,800 times a second, which made others late. Past 64 they are."""

    async def scene(node: Node) -> None:
        await handed_over(node, 3)
        asked = [asyncio.ensure_future(node.front.ledger_summary(EVER)) for _ in range(64)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="over-limit: 64 ledgers are being made"):
            await node.front.ledger_summary(EVER)
        assert {each.counts["scheduled"] for each in await asyncio.gather(*asked)} == {3}

    run_node(tmp_path / "n1", scene)
