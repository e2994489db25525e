"""`hourwheel export`: beside a node that runs, of one that is stopped, and what is refused."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from cli.main import main
from node.runtime.exit_code import ExitCode


def call(*args: object) -> Result:
    """Calls the command."""
    return CliRunner().invoke(main, [*map(str, args)])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(data directory, export): of a node that had five messages when it was exported while it served, and has nine
    now that it is stopped."""
    to = tmp_path_factory.mktemp("place") / "deep" / "export"

    async def serve() -> Path:
        async with Cluster(tmp_path_factory.mktemp("node"), count=1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            node = cluster.nodes["n1"]
            connection = Connection(node.url)

            async def schedule(count: int) -> None:
                for number in range(count):
                    message = {"topic": "t", "body": number, "delay": "30h"}
                    await asyncio.to_thread(connection.call, "POST", "/v1/messages", message)

            await schedule(5)
            await asyncio.to_thread(connection.call, "POST", "/v1/cluster/snapshot", {})
            done = await asyncio.to_thread(call, "export", "--to", to, "--data", node.data_path, "-o", "json")
            assert done.exit_code == 0, done.output
            document = json.loads(done.stdout)
            assert (document["nodes"], document["units"], document["hours"]) == (["n1"], 5, 1)
            await schedule(4)
            await cluster.stop("n1")
            return node.data_path

    return asyncio.run(serve()), to


def test_a_stopped_node_is_exported_further(places: tuple[Path, Path]) -> None:
    """The next run, given the directory that all nodes are in, ships what came since, the one after it nothing; verify
    reads what is there."""
    data, to = places
    document = json.loads(call("export", "--to", to, "--data", data.parents[1], "-o", "json").stdout)
    assert document["units"] == 4
    again = call("export", "--to", to, "--data", data)
    assert again.exit_code == 0
    assert "bytes   0" in again.stdout or "bytes       0" in again.stdout
    report = json.loads(call("verify", to, "-o", "json").stdout)
    assert (report["sound"], report["units"], report["hours"]) == (True, 9, 1)
    assert call("verify", to, "--digest").exit_code == ExitCode.USAGE


def test_damage_of_an_export_is_told(places: tuple[Path, Path], tmp_path: Path) -> None:
    """Exit 11 from verify, and from an export that would go on with it; both name the file."""
    data, _ = places
    to = tmp_path / "export"
    assert call("export", "--to", to, "--data", data).exit_code == 0
    manifest = next(to.glob("dt=*/node=n1/MANIFEST.json"))
    manifest.write_bytes(manifest.read_bytes()[:-9])
    for result in (call("verify", to), call("export", "--to", to, "--data", data)):
        assert result.exit_code == ExitCode.DATA
        assert str(manifest) in result.stderr


def test_what_is_no_data_directory_is_named(places: tuple[Path, Path], tmp_path: Path) -> None:
    """Exit 11 with the directory; the others given are exported all the same, and the JSON says which."""
    data, _ = places
    to = tmp_path / "export"
    result = call("export", "--to", to, "--data", tmp_path / "nowhere", "--data", data, "-o", "json")
    assert result.exit_code == ExitCode.DATA
    document = json.loads(result.stderr)
    assert document["nodes"] == ["n1"]
    assert document["units"] == 9
    assert f"{tmp_path / 'nowhere'} is not a data directory" in document["faults"][0]
    assert call("export", "--to", to).exit_code == ExitCode.USAGE
