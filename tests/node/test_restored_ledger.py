"""The ledger of a cluster made from a backup does not tell what the old one did since (FOUND D8)."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from api.ledger import LedgerQuery, MessageLedger
from api.port import ANONYMOUS, MessageIn, PullIn
from cli.main import main
from node.clock import NodeClock
from node.server import Node
from tests.node.single_node import run_node

EVER = LedgerQuery(from_ms=0, to_ms=1 << 42)


async def scheduled(node: Node, topic: str, delay_ms: int = 0) -> str:
    """The id of a message."""
    result = await node.service.schedule([MessageIn(topic, b"1", delay_ms=delay_ms)], ANONYMOUS)
    return bytes(result.ids[0]).decode()


async def taken(node: Node, topic: str) -> None:
    """The next message of the topic is handed over and acked."""
    (delivery,) = await node.service.pull(PullIn(topic, 1, 5_000), ANONYMOUS)
    await node.service.ack(topic, [delivery.receipt], ANONYMOUS)


def incomplete(found: MessageLedger) -> list[tuple[str, int, int]]:
    """The gaps of its window."""
    return list(found.sight.gaps)


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
        where.append((await node.service.snapshot(None)).directory)
        await taken(node, "once")

    run_node(tmp_path / "old", before)
    return Path(where[0]), made


def test_d8_what_the_old_cluster_may_have_handed_over_after_the_backup_is_a_gap(
    tmp_path: Path, backup: tuple[Path, dict[str, str]]
) -> None:
    """From the backup to the restore: of all that was open in the backup, also of what is due later by now, for the old
    cluster may have moved it; whatever the new one does with it. What is scheduled since is told in full."""
    directory, made = backup
    call = ["restore", str(directory), "--data-dir", str(tmp_path / "new"), "--node-id", "n1"]
    result = CliRunner().invoke(main, call)
    assert result.exit_code == 0, result.output
    now_ms = NodeClock().now_ms()

    async def after(node: Node) -> None:
        restored = node.store.catalog.restored
        assert restored is not None
        assert restored.created_ms < restored.restored_ms <= now_ms
        gap = ("", restored.created_ms, restored.restored_ms)
        for name in ("never", "far"):
            found = await node.service.message_ledger(made[name])
            assert (found.entry.kind, found.entry.hand_overs) == ("pending", 0)
            assert found.entry.flags[0] == "records_missing"
            assert gap in incomplete(found)
        await taken(node, "once")
        found = await node.service.message_ledger(made["once"])
        assert (found.entry.kind, found.entry.hand_overs) == ("delivered", 1)
        assert gap in incomplete(found)
        done = await node.service.message_ledger(made["done"])
        assert "records_missing" in done.entry.flags  # the old nodes' accounts are in no backup
        assert gap not in incomplete(done)
        new = await scheduled(node, "new", 1_200)
        await taken(node, "new")
        found = await node.service.message_ledger(new)
        assert (found.entry.kind, list(found.entry.flags), incomplete(found)) == ("delivered_once", [], [])
        summary = await node.service.ledger_summary(EVER)
        assert gap in summary.sight.gaps

    run_node(tmp_path / "new", after)
