"""A leader's clock was far ahead (A7 is broken). A later leader with a right clock makes the ledger."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from api.port.ledger import MessageLedger
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from node.ledger.judge import AHEAD_MS, COVER_AFTER_MS, _not_yet
from node.ledger.ledger import Ledgers, _Seen
from node.node import Node
from storage.format.position import EVER_MS, HOUR_MS
from storage.format.rows import HEADER_SIZE, PLANNED, SETTLE
from storage.format.states import DELIVERED, LEASED
from storage.query.delivery_search import SAMPLE_ROWS
from storage.record.delivery_record import DELIVERY, END, START
from tests.node.pushing import schedule
from tests.node.single_node import run_node, run_node_in
from tests.node.skewed_nodes import Skewed

NOW_MS = 1_790_000_000_000


async def pulled(node: Node) -> Delivery:
    """The one message."""
    (delivery,) = await node.front.pull(PullIn("t", 1, 30_000), ANONYMOUS)
    return delivery


async def moved_and_acked(node: Node, message_id: str) -> MessageLedger:
    """The ledger of the one message, which is made due again, pulled and acked."""
    await node.front.reschedule(message_id, due_ms=None, delay_ms=0, if_match=None, principal=ANONYMOUS)
    await node.front.ack("t", [(await pulled(node)).receipt], ANONYMOUS)
    return await node.front.message_ledger(message_id)


@pytest.mark.parametrize(("ahead_s", "created_ahead"), [(60.0, False), (3_600.0, False), (3_600.0, True)])
def test_a_pull_that_only_a_clock_ahead_tells_of_is_no_delivered_once(
    tmp_path: Path, ahead_s: float, created_ahead: bool
) -> None:
    """The leader died before its Lease was in the log, and its node came back with a right clock: the message went out
    again and was acked. The account of the first pull is of a time to come, and, when that has come, of one at which
    nobody searches for a message that ended long before."""
    ids: list[str] = []
    killed = tmp_path / "killed"

    async def first(node: Node) -> None:
        ids.extend(await schedule(node, MessageIn("t", b"1")))

    async def ahead(node: Node) -> None:
        assert await node.group.proposer.seal(5.0, lambda: None)  # killed before the Lease is in the log
        await pulled(node)
        shutil.copytree(tmp_path / "n1", killed)
        node.group.proposer.resume()

    async def right(node: Node) -> None:
        told(await moved_and_acked(node, ids[0]))

    async def later(node: Node) -> None:
        found = await node.front.message_ledger(ids[0])
        if found.entry.hand_overs < 2:
            told(found)

    def told(found: MessageLedger) -> None:
        assert found.entry.kind == "delivered"
        assert not found.sight.complete
        assert found.sight.gaps

    run_node_in(Skewed(ahead_s if created_ahead else 0.0), tmp_path / "n1", first)
    run_node_in(Skewed(ahead_s), tmp_path / "n1", ahead)
    run_node(killed, right)
    run_node_in(Skewed(ahead_s + 100), killed, later)


def test_what_a_clock_ahead_did_is_known_behind_many_ends(tmp_path: Path) -> None:
    """Ends of hand-overs that had begun before fill the log behind its last start, by a clock an hour ahead."""
    ids: list[str] = []
    killed = tmp_path / "killed"

    async def first(node: Node) -> None:
        ids.extend(await schedule(node, MessageIn("t", b"1")))

    async def ahead(node: Node) -> None:
        assert await node.group.proposer.seal(5.0, lambda: None)  # killed before the Lease is in the log
        await pulled(node)
        file, _ = node.group.delivery_log.written() or (None, 0)
        assert file is not None
        data = (node.group.directory.deliveries / file.name).read_bytes()
        starts = np.frombuffer(data, DELIVERY, offset=HEADER_SIZE)
        ends = np.repeat(starts[starts["kind"] == START][-1:], SAMPLE_ROWS + 4)
        ends["kind"], ends["home"] = END, ends["home"][0] + np.arange(1, len(ends) + 1, dtype=np.uint64)
        node.group.delivery_log._append(ends, node.group.clock.now_ms())
        shutil.copytree(tmp_path / "n1", killed)
        node.group.proposer.resume()

    async def right(node: Node) -> None:
        found = await moved_and_acked(node, ids[0])
        assert (found.entry.kind, found.entry.hand_overs, found.sight.complete) == ("delivered", 1, False)

    run_node(tmp_path / "n1", first)
    run_node_in(Skewed(3_600.0), tmp_path / "n1", ahead)
    run_node(killed, right)


def test_what_a_clock_ahead_created_may_have_gone_out_before_a_right_one_settled_it(tmp_path: Path) -> None:
    """It was pulled and given back twice by a clock a minute ahead, then moved, pulled and acked by a right one:
    by that it ended before it was created."""
    ids: list[str] = []

    async def ahead(node: Node) -> None:
        ids.extend(await schedule(node, MessageIn("t", b"1")))
        for delay_ms in (0, 600_000):
            receipts = [(await pulled(node)).receipt]
            await node.front.nack("t", receipts, delay_ms=delay_ms, principal=ANONYMOUS)

    async def right(node: Node) -> None:
        found = await moved_and_acked(node, ids[0])
        assert (found.entry.kind, found.entry.hand_overs) == ("delivered", 1)
        assert not found.sight.complete

    async def later(node: Node) -> None:
        found = await node.front.message_ledger(ids[0])
        assert (found.entry.kind, found.entry.hand_overs, found.sight.complete) == ("delivered_once", 3, True)

    run_node_in(Skewed(60.0), tmp_path / "n1", ahead)
    run_node(tmp_path / "n1", right)
    run_node_in(Skewed(200.0), tmp_path / "n1", later)


def test_a_planned_lease_is_no_sign_of_a_clock_that_was_ahead() -> None:
    """It bears the time of the hand-over to come; any other record after this moment was written by such a clock."""

    def spans(what: int, code: int, at_ms: int) -> list[tuple[int, int]]:
        settles = np.zeros(1, SETTLE)
        settles["what"], settles["code"], settles["at_ms"] = what, code, at_ms
        hour_messages: Any = SimpleNamespace(trail=SimpleNamespace(settles=settles), abroad=settles[:0])
        rows = _not_yet(hour_messages, NOW_MS)
        return list(zip(rows["from_ms"].tolist(), rows["until_ms"].tolist(), strict=True))

    late_ms = NOW_MS + AHEAD_MS + 1
    assert spans(LEASED, PLANNED, late_ms) == []
    assert spans(LEASED, 0, late_ms) == [(NOW_MS, late_ms + 1)]
    assert spans(DELIVERED, PLANNED, late_ms) == [(NOW_MS, late_ms + 1)]
    assert spans(DELIVERED, 0, late_ms - 1) == []


def test_a_gap_that_begins_in_a_time_to_come_does_not_end_before() -> None:
    """A term that lost its end had been led by a clock an hour ahead; what is shown ends a minute from now at most."""
    clock: Any = SimpleNamespace(now_ms=lambda: NOW_MS)
    absent: Any = None
    begin_ms, end_ms = NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS
    seen = _Seen(gaps={("n1", begin_ms, end_ms), ("n2", NOW_MS - 5, EVER_MS), ("n3", NOW_MS - 5, NOW_MS)})
    ledgers = Ledgers(absent, clock, absent, absent, absent, retention_ms=1_000)
    soon_ms = NOW_MS + COVER_AFTER_MS
    assert ledgers._sight(0, NOW_MS, seen).gaps == [
        ("n1", begin_ms, begin_ms),
        ("n2", NOW_MS - 5, soon_ms),
        ("n3", NOW_MS - 5, NOW_MS),
    ]
