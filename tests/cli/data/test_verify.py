"""`hourwheel verify`: sound, damaged, in use, not a data directory; and the digest."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from cli.main import main
from node.runtime.exit_code import ExitCode
from storage.directory.data_directory import DataDirectory
from storage.file.disk import Disk


def verify(*args: object) -> Result:
    """Calls the subcommand."""
    return CliRunner().invoke(main, ["verify", *map(str, args)])


@pytest.fixture(scope="module")
def data_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a node that served a few messages and was stopped."""

    async def serve() -> Path:
        async with Cluster(tmp_path_factory.mktemp("verify"), count=1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            node = cluster.nodes["n1"]
            for number in range(5):
                message = {"topic": "t", "body": number, "delay": "1h"}
                await asyncio.to_thread(Connection(node.url).call, "POST", "/v1/messages", message)
            await cluster.stop("n1")
            return node.data_path

    return asyncio.run(serve())


def test_sound_directory(data_path: Path) -> None:
    """Exit 0 and what was read; the same document in JSON."""
    assert "sound" in verify(data_path).stdout
    document = json.loads(verify(data_path, "-o", "json").stdout)
    assert document["sound"] is True
    assert document["units"] == 5
    assert document["applied_index"] > 0


def test_digest_is_the_same_twice(data_path: Path) -> None:
    """One hash at one index, and reading changes neither."""
    first, second = (json.loads(verify(data_path, "--digest", "-o", "json").stdout) for _ in range(2))
    assert first == second
    assert len(first["digest"]) == 64
    assert first["applied_index"] > 0


def test_flipped_bit_is_found(data_path: Path) -> None:
    """Exit 11; the file is named on stderr, in JSON as faults."""
    log = next((data_path / "hours").glob("*/log"))
    good = log.read_bytes()
    try:
        log.write_bytes(good[:-20] + bytes([good[-20] ^ 1]) + good[-19:])
        result = verify(data_path)
        assert result.exit_code == ExitCode.DATA
        assert f"{log.parent.name}/log" in result.stderr
        assert len(json.loads(verify(data_path, "-o", "json").stderr)["faults"]) == 1
    finally:
        log.write_bytes(good)
    assert verify(data_path).exit_code == ExitCode.OK


def test_damage_in_the_middle_of_the_journal(data_path: Path) -> None:
    """A flipped bit before the last write is a fault with file and offset; nothing is changed by looking."""
    segment = next((data_path / "journal").glob("*.seg"))
    good = segment.read_bytes()
    middle = len(good) // 2
    damaged = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    try:
        segment.write_bytes(damaged)
        result = verify(data_path)
        assert result.exit_code == ExitCode.DATA
        assert str(segment) in result.stderr
        assert segment.read_bytes() == damaged
    finally:
        segment.write_bytes(good)


def test_torn_tail_of_the_journal_is_no_fault(data_path: Path) -> None:
    """A write cut short by a crash is a note; the file keeps its bytes until the node's next start."""
    segment = next((data_path / "journal").glob("*.seg"))
    good = segment.read_bytes()
    try:
        segment.write_bytes(good + b"torn")
        document = json.loads(verify(data_path, "-o", "json").stdout)
        assert document["sound"] is True
        assert any("4 bytes of a torn write" in note for note in document["notes"])
        assert segment.read_bytes() == good + b"torn"
    finally:
        segment.write_bytes(good)


def test_directory_in_use(data_path: Path) -> None:
    """A node that runs is not taken for damaged: the lock is named."""
    held = DataDirectory.open(data_path, "n1", Disk(), bytes(16))
    try:
        result = verify(data_path)
    finally:
        held.close()
    assert result.exit_code == ExitCode.DATA
    assert "damaged" not in result.stderr


def test_not_a_data_directory(tmp_path: Path) -> None:
    """Any other folder, and none at all."""
    assert "not a data directory" in verify(tmp_path).stderr
    assert verify(tmp_path).exit_code == ExitCode.DATA
    assert verify(tmp_path / "missing").exit_code == ExitCode.DATA


def test_folder_of_a_node_instead_of_its_data_directory(data_path: Path, tmp_path: Path) -> None:
    """`dev` keeps the data in a folder `data` beside config and log; who names the outer one is told the inner."""
    shutil.copytree(data_path, tmp_path / "data")
    result = verify(tmp_path)
    assert result.exit_code == ExitCode.DATA
    assert f"but {tmp_path / 'data'} is one" in result.stderr
