"""A node writes a backup of itself while it serves, and bad places are refused."""

import asyncio
from pathlib import Path

import pytest

import node.upkeep.backup as node_backup
from api.port.port import ANONYMOUS, MessageIn
from api.port.problem import Problem
from node.node import Node
from storage.directory.backup import BackupWriter, read_manifest, verify_backup
from storage.file.disk import Disk
from tests.node.single_node import run_node


async def schedule(node: Node, count: int, *, after_ms: int = 3_600_000) -> list[str]:
    """Messages due in an hour; their ids."""
    sent = [MessageIn(topic="orders", body=b"%d" % number, delay_ms=after_ms) for number in range(count)]
    result = await node.front.schedule(sent, ANONYMOUS)
    return [id.decode() for id in result.ids.tolist()]


def test_backup_of_a_serving_node(tmp_path: Path) -> None:
    """What was acknowledged before the request is in it; the answer says where, at which index, how long; what comes
    later is in the next one."""

    async def play(node: Node) -> None:
        await schedule(node, 50)
        index = node.group.machine.applied_index
        first = await node.front.snapshot(None)
        assert first.directory.startswith(f"{tmp_path}/data.backups/")
        assert first.applied_index >= index
        assert (first.node, first.applied_term) == ("n1", node.group.raft.term)
        report = verify_backup(Path(first.directory))
        assert report.sound, report.faults
        assert report.units == 50
        assert read_manifest(Path(first.directory), Disk()).total_bytes == first.bytes
        await schedule(node, 7)
        second = await node.front.snapshot("nightly/deep")
        assert Path(second.directory).parent == tmp_path / "data.backups" / "nightly" / "deep"
        assert verify_backup(Path(second.directory)).units == 57
        assert not list((tmp_path / "data" / "pins").iterdir())

    run_node(tmp_path / "data", play)


def test_places_refused(tmp_path: Path) -> None:
    """Nothing is written outside the configured directory; a place that cannot be written is told; the node goes on."""
    (tmp_path / "file").write_text("no directory")

    async def play(node: Node) -> None:
        await schedule(node, 3)
        for outside in ("..", "/etc", "a/../../b", str(tmp_path)):
            with pytest.raises(Problem) as refused:
                await node.front.snapshot(outside)
            assert refused.value.code == "invalid-field"
            assert str(tmp_path / "file") in str(refused.value.detail)
        with pytest.raises(Problem) as refused:
            await node.front.snapshot(None)
        assert refused.value.code == "backup-failed"
        assert await schedule(node, 1)

    run_node(tmp_path / "data", play, backup={"directory": str(tmp_path / "file")})
    assert (tmp_path / "file").read_text() == "no directory"


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request while one is written is refused; a caller that goes away changes nothing; a stop waits for the
    piece that is being written and leaves no part of a backup."""

    copied = asyncio.Event()

    async def play(node: Node) -> None:
        loop = asyncio.get_running_loop()

        class Telling(BackupWriter):
            """Says when a piece is written."""

            def copy(self, name: str, offset: int, size: int) -> None:
                super().copy(name, offset, size)
                loop.call_soon_threadsafe(copied.set)

        monkeypatch.setattr(node_backup, "BackupWriter", Telling)
        await schedule(node, 20_000)
        first = asyncio.ensure_future(node.front.snapshot(None))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await node.front.snapshot(None)
        assert refused.value.code == "change-in-progress"
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await copied.wait()

    run_node(tmp_path / "data", play, backup={"mb_per_s": 1})
    assert not list((tmp_path / "data.backups").iterdir())


def test_b18_backups_do_not_fill_the_disk(tmp_path: Path) -> None:
    """Each into a directory of its own. Who makes room gets another."""
    share = 600_000 / Disk().total_bytes(tmp_path)

    async def play(node: Node) -> None:
        base = tmp_path / "data.backups"
        base.mkdir()
        (base / "other").write_bytes(bytes(500_000))
        first = await node.front.snapshot("a")
        assert first.bytes < 50_000 < 5 * first.bytes, "there is room for 10 at most"
        for number in range(10):
            await schedule(node, 1)
            try:
                await node.front.snapshot(f"b{number}/c")
            except Problem as problem:
                refused, made = problem, number
                break
        assert made > 0
        assert refused.code == "backup-failed"
        assert str(refused.detail).startswith(f"backups below {base} take ")
        assert sorted(path.name for path in base.iterdir()) == ["a", *(f"b{number}" for number in range(made)), "other"]
        (base / "other").unlink()
        assert await node.front.snapshot("d")

    run_node(tmp_path / "data", play, backup={"max_share": share})
