"""A node ships what it has while it serves, and lets go of nothing that it has not shipped."""

import asyncio
import os
import time
from pathlib import Path

import pytest
import structlog

from api.port.port import ANONYMOUS, MessageIn
from node.node import Node
from node.runtime.clock import NodeClock
from storage.export.export import ExportRefused
from storage.export.manifest import read_export
from storage.export.verify import verify_export
from storage.file.delivery_file import DeliveryFile
from storage.file.disk import Disk
from storage.format.level import LEVELS
from storage.format.position import HOUR_MS
from tests.node.single_node import run_node
from tests.waiting import until

RARELY = {"every_s": 86_400}


async def schedule(node: Node, count: int, hour: int) -> None:
    """Messages due in this hour, and a checkpoint that has them."""
    due_ms = hour * HOUR_MS + 1000
    await node.front.schedule([MessageIn(topic="t", body=b"x" * 100, due_ms=due_ms)] * count, ANONYMOUS)
    await node.group.checkpointer.checkpoint()


def test_a_serving_node_ships_what_is_new(tmp_path: Path) -> None:
    """A run ships what the checkpoint has, the next one what came since; the metrics tell of both."""
    to = tmp_path / "export"

    async def play(node: Node) -> None:
        await until(
            lambda: node.group.levels.level == LEVELS[1]
        )  # an entry of its own, which a busy machine writes late
        hour = node.group.clock.now_ms() // HOUR_MS + 30
        await schedule(node, 50, hour)
        assert await node.group.exports.export()
        first = node.group.exports.values()
        await schedule(node, 7, hour + 24)
        assert await node.group.exports.export()
        second = node.group.exports.values()
        nodes, partitions = read_export(to, Disk())
        assert [each.units for _, partition in partitions for each in partition.hours] == [50, 7]
        assert nodes["n1"].applied_index == node.group.machine.applied_index
        assert nodes["n1"].members[0].id == "n1"
        assert [topic.name for topic in nodes["n1"].topics] == ["t"]
        assert 50 * 160 <= first["hourwheel_exported_bytes"] <= second["hourwheel_exported_bytes"] - 7 * 160
        assert second["hourwheel_exports"] >= 2
        assert not second["hourwheel_exports_failed"]
        assert second["hourwheel_export_age_seconds"] < 60

    run_node(tmp_path / "data", play, export={"to": str(to), **RARELY})
    report = verify_export(to)
    assert report.sound, report.faults
    assert report.units == 57
    assert not list((tmp_path / "data" / "pins").glob("*"))


def test_nothing_goes_before_it_is_shipped(tmp_path: Path) -> None:
    """An hour may go once all of it is shipped, and not while anything came since; so may a file of the delivery log
    that a later one follows."""

    async def play(node: Node) -> None:
        hour = node.group.clock.now_ms() // HOUR_MS + 30
        first, second = (DeliveryFile(hour, sequence) for sequence in (1001, 1002))
        for file in (first, second):
            (tmp_path / "data" / "deliveries" / file.name).write_bytes(bytes(144))
        await schedule(node, 3, hour)
        assert not node.group.exports.covers(hour)
        assert not node.group.exports.covers_log(first)
        await node.group.exports.export()
        assert node.group.exports.covers(hour)
        assert node.group.exports.covers(hour + 1), "an hour that is not there"
        assert node.group.exports.covers_log(first)
        assert not node.group.exports.covers_log(second)
        await schedule(node, 1, hour)
        assert not node.group.exports.covers(hour)
        await node.group.exports.export()
        assert node.group.exports.covers(hour)

    run_node(tmp_path / "data", play, export={"to": str(tmp_path / "export"), **RARELY})


def test_a_restarted_node_goes_on(tmp_path: Path) -> None:
    """What was shipped before the restart counts again after the first run, which ships nothing twice."""
    hours = []

    async def begin(node: Node) -> None:
        hours.append(node.group.clock.now_ms() // HOUR_MS + 30)
        await schedule(node, 20, hours[0])
        await node.group.exports.export()

    async def go_on(node: Node) -> None:
        await node.group.exports.export()
        assert node.group.exports.covers(hours[0])
        assert node.group.exports.bytes < 20 * 160

    run_node(tmp_path / "data", begin, export={"to": str(tmp_path / "export"), **RARELY})
    run_node(tmp_path / "data", go_on, export={"to": str(tmp_path / "export"), **RARELY})


def test_an_hour_goes_when_it_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour that is over stays while its export fails, goes when it is made, and is in the export for good."""
    place = tmp_path / "export"
    place.write_text("no directory")
    tables = {
        "storage": {"retention_ms": 1000, "key_retention_ms": 1000},
        "export": {"to": str(place), **RARELY},
    }
    hours = []

    async def two_hours_ago(node: Node) -> None:
        due_ms = node.group.clock.now_ms() + 30_000
        hours.append(due_ms // HOUR_MS)
        message = MessageIn(topic="t", body=b"1", due_ms=due_ms)
        scheduled = await node.front.schedule([message], ANONYMOUS)
        await node.front.cancel(scheduled.ids[0].decode(), if_match=None, principal=ANONYMOUS)

    async def now(node: Node) -> None:
        await schedule(node, 1, node.group.clock.now_ms() // HOUR_MS + 30)
        with pytest.raises(ExportRefused):
            await node.group.exports.export()
        assert node.group.machine.tick > (hours[0] + 1) * 3600
        assert not node.group.store.unsettled(hours[0])
        assert node.group.retention.over() == []
        place.unlink()
        await node.group.exports.export()
        await node.group.retention.propose()
        assert hours[0] not in node.group.store.hours()
        await node.group.checkpointer.checkpoint()
        await node.group.exports.export()

    with monkeypatch.context() as past:
        past.setattr("node.environment.Environment.clock", lambda self: NodeClock(wall=lambda: time.time() - 7200))
        run_node(tmp_path / "data", two_hours_ago, **tables)
    run_node(tmp_path / "data", now, **tables)
    assert hours[0] in [hour.hour for _, partition in read_export(place, Disk())[1] for hour in partition.hours]
    assert verify_export(place).sound


def test_without_a_place_nothing_waits(tmp_path: Path) -> None:
    """A node that ships nothing holds nothing back, and has no age to tell."""

    async def play(node: Node) -> None:
        hour = node.group.clock.now_ms() // HOUR_MS + 30
        await schedule(node, 3, hour)
        assert node.group.exports.covers(hour)
        assert node.group.exports.covers_log(DeliveryFile(hour, 1))
        assert not any(node.group.exports.values().values())

    run_node(tmp_path / "data", play)


def test_a_place_that_cannot_be_written_ends_no_node(tmp_path: Path) -> None:
    """It is logged and counted; the node serves on and keeps what it has; made right, the next run ships it all."""
    place = tmp_path / "file"
    place.write_text("no directory")

    async def play(node: Node) -> None:
        hour = node.group.clock.now_ms() // HOUR_MS + 30
        await schedule(node, 3, hour)
        with pytest.raises(ExportRefused, match="the export cannot be written"):
            await node.group.exports.export()
        assert not node.group.exports.covers(hour)
        os.unlink(place)
        await node.group.exports.export()
        assert node.group.exports.covers(hour)

    run_node(tmp_path / "data", play, export={"to": str(place), **RARELY})


def test_what_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its own runs a node counts and logs those that fail, and goes on with the next."""
    place = tmp_path / "file"
    place.write_text("no directory")
    monkeypatch.setattr("node.upkeep.export._RETRY_S", 0.01)

    async def play(node: Node) -> None:
        failed, done, export = asyncio.Event(), asyncio.Event(), node.group.exports.export

        async def telling() -> bool:
            try:
                shipped = await export()
            except ExportRefused:
                failed.set()
                raise
            done.set()
            return shipped

        node.group.exports.export = telling  # type: ignore[method-assign]
        await schedule(node, 3, node.group.clock.now_ms() // HOUR_MS + 30)
        await failed.wait()
        os.unlink(place)
        done.clear()
        await done.wait()
        await node.group.exports.export()
        assert node.group.exports.values()["hourwheel_exports_failed"] == node.group.exports.failures > 0

    with structlog.testing.capture_logs() as logs:
        run_node(tmp_path / "data", play, export={"to": str(place), **RARELY})
    assert "errno" in next(line["error"] for line in logs if line["event"] == "export failed")
