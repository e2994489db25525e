"""The ledger of a cluster made from a backup does not tell what the old one did since (FOUND D8)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from api.port.ledger import LedgerQuery, MessageLedger
from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from cli.main import main
from ledger.terms import terms_of
from node.node import Node
from node.runtime.clock import NodeClock
from storage.file.disk import Disk
from storage.format.level import has
from storage.query.delivery_search import DeliverySearch, Search
from tests.node.single_node import run_node, run_node_in
from tests.node.skewed_nodes import Skewed
from tests.waiting import until

EVER = LedgerQuery(from_ms=0, to_ms=1 << 42)


async def scheduled(node: Node, topic: str, delay_ms: int = 0) -> str:
    """The id of a message."""
    result = await node.front.schedule([MessageIn(topic, b"1", delay_ms=delay_ms)], ANONYMOUS)
    return bytes(result.ids[0]).decode()


async def taken(node: Node, topic: str) -> None:
    """The next message of the topic is handed over and acked."""
    (delivery,) = await node.front.pull(PullIn(topic, 1, 5_000), ANONYMOUS)
    await node.front.ack(topic, [delivery.receipt], ANONYMOUS)


def incomplete(found: MessageLedger) -> list[tuple[str, int, int]]:
    """The gaps of its window."""
    return list(found.sight.gaps)


def restored(tmp_path: Path, backup: str) -> Path:
    """A directory made from it."""
    call = ["restore", backup, "--data-dir", str(tmp_path / "new"), "--node-id", "n1"]
    result = CliRunner().invoke(main, call)
    assert result.exit_code == 0, result.output
    return tmp_path / "new"


@pytest.fixture(name="backup")
def _backup(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A backup, and the ids of messages that were in it: two that are due, one that is due in an hour, one that was
    delivered. What was due is handed over afterwards, and the far one moved near and handed over too."""
    made: dict[str, str] = {}
    where: list[str] = []

    async def before(node: Node) -> None:
        made["done"] = await scheduled(node, "done")
        await taken(node, "done")
        made["once"], made["never"] = await scheduled(node, "once"), await scheduled(node, "never")
        made["far"] = await scheduled(node, "far", 3_600_000)
        where.append((await node.front.snapshot(None)).directory)
        await taken(node, "once")

    run_node(tmp_path / "old", before)
    return Path(where[0]), made


def test_d8_what_the_old_cluster_may_have_handed_over_after_the_backup_is_a_gap(
    tmp_path: Path, backup: tuple[Path, dict[str, str]]
) -> None:
    """All the time to the restore, of all that was in the backup, whatever the new cluster does with it. The old one
    may have moved it, or redriven it, and its accounts are in no backup. What is scheduled since is told in full."""
    directory, made = backup
    new = restored(tmp_path, str(directory))
    now_ms = NodeClock().now_ms()

    async def after(node: Node) -> None:
        made_from = node.group.store.catalog.restored
        assert made_from is not None
        assert made_from.restored_ms <= now_ms

        async def asked(id: str) -> MessageLedger:
            """With the one gap: from the message's beginning to the restore."""
            found = await node.front.message_ledger(id)
            assert ("", found.sight.from_ms, made_from.restored_ms) in incomplete(found)
            assert "records_missing" in found.entry.flags
            return found

        for name in ("never", "far"):
            found = await asked(made[name])
            assert (found.entry.kind, found.entry.hand_overs) == ("pending", 0)
        await taken(node, "once")
        found = await asked(made["once"])
        assert (found.entry.kind, found.entry.hand_overs) == ("delivered", 1)
        assert (await asked(made["done"])).entry.kind == "delivered"
        since = await scheduled(node, "since", 1_200)
        await taken(node, "since")
        found = await node.front.message_ledger(since)
        assert (found.entry.kind, list(found.entry.flags), incomplete(found)) == ("delivered_once", [], [])
        summary = await node.front.ledger_summary(EVER)
        assert ("", 0, made_from.restored_ms) in summary.sight.gaps

    run_node(new, after)


def test_46710_what_a_leader_that_was_ahead_wrote_was_in_the_backup_too(tmp_path: Path) -> None:
    """The next leader's clock is right, and turned the log's time back behind what that one had written. Times do not
    tell what a backup had."""
    made: dict[str, str] = {}

    async def ahead(node: Node) -> None:
        made["far"], made["cancelled"] = await scheduled(node, "t", 3_600_000), await scheduled(node, "t", 3_600_000)

    async def right(node: Node) -> None:
        made["backup"] = (await node.front.snapshot(None)).directory

    async def after(node: Node) -> None:
        found = await node.front.message_ledger(made["far"])
        assert "records_missing" in found.entry.flags
        (gap,) = incomplete(found)
        assert gap[0] == ""
        assert gap[1] <= gap[2]
        cancelled = await node.front.cancel(made["cancelled"], if_match=None, principal=ANONYMOUS)
        assert cancelled.prior == "unknown"

    run_node_in(Skewed(30.0), tmp_path / "old", ahead)
    run_node(tmp_path / "old", right)
    run_node(restored(tmp_path, made["backup"]), after)


def test_46710_a_leader_that_is_behind_ends_what_the_backup_had_open(tmp_path: Path) -> None:
    """By its clock the message was over before the backup was made. The old cluster had handed it over as well. What
    was dead then may have been redriven there."""
    made: dict[str, str] = {}

    async def old(node: Node) -> None:
        made["open"] = await scheduled(node, "open")
        once = TopicChange(retry={"max_attempts": 1})
        await node.front.put_topic("dying", once, create=True, if_match=None, principal=ANONYMOUS)
        made["dead"] = await scheduled(node, "dying")
        (delivery,) = await node.front.pull(PullIn("dying", 1, 5_000), ANONYMOUS)
        assert await node.front.nack("dying", [delivery.receipt], delay_ms=None, principal=ANONYMOUS) == ["nacked"]
        made["backup"] = (await node.front.snapshot(None)).directory

    async def behind(node: Node) -> None:
        await taken(node, "open")
        found = await node.front.message_ledger(made["open"])
        assert (found.entry.kind, found.entry.hand_overs) == ("delivered", 1)
        assert incomplete(found)
        found = await node.front.message_ledger(made["dead"])
        assert (found.entry.kind, incomplete(found) != []) == ("dead", True)

    run_node(tmp_path / "old", old)
    run_node_in(Skewed(-4.0), restored(tmp_path, made["backup"]), behind)


def test_later_terms_of_a_restored_cluster_name_the_one_before(tmp_path: Path, backup: tuple[Path, Any]) -> None:
    """The first one names none: the old cluster's are no terms of this one."""
    new, found = restored(tmp_path, str(backup[0])), []

    async def leads(node: Node) -> None:
        await until(lambda: has(node.group.levels.level, "term-mark"))
        found.append(node.group.raft.term)

    for _ in range(2):
        run_node(new, leads)
    edges = DeliverySearch(new / "deliveries", Disk()).run(Search(np.zeros(0, np.uint64), 0, 0)).edges
    terms = terms_of(edges)
    assert terms[["term", "marked", "before"]].tolist() == [(found[0], 1, 0), (found[1], 1, found[0])]


async def moved(node: Node, topic: str) -> str:
    """The id of a message that is due, and stands elsewhere than where it was born."""
    far = await scheduled(node, topic, 2 * 3_600_000)
    await node.front.reschedule(far, due_ms=None, delay_ms=0, if_match=None, principal=ANONYMOUS)
    return far


def test_what_was_moved_was_in_the_backup_by_where_it_was_born(tmp_path: Path) -> None:
    """Moved before the backup, or since. What was born since is told in full, moved or not."""
    made: dict[str, str] = {}

    async def old(node: Node) -> None:
        made["moved"] = await moved(node, "moved")
        made["unmoved"] = await scheduled(node, "unmoved", 2 * 3_600_000)
        made["backup"] = (await node.front.snapshot(None)).directory

    async def new(node: Node) -> None:
        far = made["unmoved"]
        await node.front.reschedule(far, due_ms=None, delay_ms=0, if_match=None, principal=ANONYMOUS)
        for name in ("moved", "unmoved"):
            await taken(node, name)
            found = await node.front.message_ledger(made[name])
            assert (found.entry.kind, found.entry.hand_overs) == ("delivered", 1)
            assert incomplete(found)
        later = await moved(node, "later")
        await taken(node, "later")
        found = await node.front.message_ledger(later)
        assert (found.entry.kind, incomplete(found)) == ("delivered_once", [])
        await until(lambda: has(node.group.levels.level, "term-mark"))  # from then on the log names the term before
        found = await node.front.message_ledger(later)
        assert (found.entry.kind, incomplete(found)) == ("delivered_once", [])

    run_node(tmp_path / "old", old)
    run_node(restored(tmp_path, made["backup"]), new)
