"""The commands of docs/operating.md, run as an operator runs them, against real nodes; one joins and one goes."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from click.testing import CliRunner

from chaos.cluster.cluster import READY_S, Cluster
from chaos.cluster.replacing import take
from cli.main import main
from node.runtime.exit_code import ExitCode
from tests.docs.commands import ROOT, commands, filled

PAGE: Final = ROOT / "docs" / "operating.md"
#: The tests that run the commands which start something, or need a cluster of another kind.
ELSEWHERE: Final = {
    "hourwheel dev": "tests/cli/run/test_dev.py",
    "hourwheel serve --config n1.toml": "tests/cli/run/test_serve.py",
    "hourwheel serve --config n4.toml": "chaos/cluster/replacing.py",
    "hourwheel node journal-term DIR DIR DIR": "tests/cli/run/test_journal_term.py",
    "hourwheel --help": "tests/cli/test_main.py",
}
#: Commands that the page names without their arguments.
NAMES: Final = {
    f"hourwheel {name}" for name in ("reconcile", "chaos", "serve", "verify", "cluster remove", "node drain", "dead")
}


class Operator:
    """Types commands of the page for a cluster, and remembers which are left."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        found = {command for command in commands(PAGE) if command.startswith("hourwheel ")}
        assert ELSEWHERE.keys() | NAMES <= found
        self.left = found - ELSEWHERE.keys() - NAMES

    async def run(self, command: str, **values: str | Iterator[str]) -> Any:
        """The document that a command of the page prints. `values` stand for the words in capitals; HOST_PORT for
        HOST:PORT."""
        self.left.discard(command)
        running = ",".join(self._cluster.nodes[node_id].url for node_id in self._cluster.running())
        words = filled(command, {name.replace("_", ":"): value for name, value in values.items()})[1:]
        words = [running if word == "http://n1:7400,http://n2:7400" else word for word in words]
        environment = {"HOURWHEEL_URL": running}
        invoke = partial(CliRunner().invoke, main, [*words, "-o", "json"], env=environment, input="y\n")
        result = await asyncio.to_thread(invoke)
        assert result.exit_code == ExitCode.OK, (command, result.output)
        return msgspec.json.decode(result.stdout)

    async def leader(self) -> str:
        """The id of the node that leads, as the command says."""
        return str((await self.run("hourwheel cluster status"))["leader"])


async def look_at_messages(operator: Operator) -> None:
    """A message, its topic and its ledger."""
    id_text = (await operator.run("hourwheel schedule orders 7 --delay 1h"))["id"]
    for command in ("hourwheel get ID", "hourwheel get ID --url http://n1:7400,http://n2:7400"):
        assert (await operator.run(command, ID=id_text))["id"] == id_text
    (topic,) = (await operator.run("hourwheel topic list"))["items"]
    assert topic["topic"] == "orders"
    window = {"TOPIC": "orders", "START": "-1h", "END": "+2h"}
    assert (await operator.run("hourwheel ledger TOPIC --from START --to END", **window))["classes"]["pending"] == 1
    assert (await operator.run("hourwheel ledger --class delivered_more"))["items"] == []
    assert (await operator.run("hourwheel dead TOPIC", TOPIC="orders"))["items"] == []
    for command in (
        "hourwheel redrive TOPIC --dry-run", "hourwheel redrive TOPIC", "hourwheel redrive TOPIC --reason restored",
        "hourwheel resend TOPIC --from -2h --to -1h",
    ):  # fmt: skip
        assert (await operator.run(command, TOPIC="orders"))["matched"] == 0
    for command in ("hourwheel shift TOPIC --by 30m", "hourwheel release TOPIC", "hourwheel shift TOPIC --by 90m"):
        assert (await operator.run(command, TOPIC="orders"))["changed"] == 1
    ended = await operator.run("hourwheel cancel --topic TOPIC --to +1d", TOPIC="orders")
    assert ended["changed"] == 1
    assert (await operator.run("hourwheel operation"))["items"][0] == ended
    for command in ("hourwheel operation ID", "hourwheel operation ID --follow"):
        assert await operator.run(command, ID=ended["id"]) == ended


async def change_nodes(operator: Operator, cluster: Cluster) -> None:
    """Leadership moves, a node drains, the level is asked for, one node joins and another goes."""
    assert len((await operator.run("hourwheel cluster status --local"))["nodes"]) == 3
    before = await operator.leader()
    assert (await operator.run("hourwheel cluster transfer"))["from"] == before
    await cluster.wait_ready()
    assert (await operator.run("hourwheel cluster transfer [--to NODE]", NODE=before))["to"] == before
    await cluster.wait_ready()
    assert (await operator.run("hourwheel cluster upgrade"))["level"] >= 1
    take(cluster, "n4")
    cluster.start("n4")
    n4 = cluster.nodes["n4"]
    await cluster.until(lambda: cluster.status("n4"), "n4 listens", READY_S)
    add = "hourwheel cluster add n4 --raft HOST:PORT --http HOST:PORT --wait 10m"
    assert (await operator.run(add, HOST_PORT=iter((n4.raft, n4.http))))["role"] == "follower"
    cluster.leaving.add("n2")
    await operator.run("hourwheel cluster remove n2")
    assert await cluster.end_of("n2") == ExitCode.REMOVED
    cluster.forget("n2")
    await cluster.wait_ready()
    drain = "hourwheel node drain --url http://NODE [--node ID]"
    assert await operator.run(drain, NODE=cluster.nodes["n3"].http, ID="n3")


async def copy_and_check(operator: Operator, cluster: Cluster, directory: Path) -> None:
    """A backup, an export, a stopped node's directory; and a node from the backup."""
    verify = "hourwheel verify DIR"
    backup = (await operator.run("hourwheel cluster snapshot [--directory DIR]", DIR="monday"))["directory"]
    data = str(cluster.nodes["n1"].data_path)
    export = str(directory / "export")
    await operator.run("hourwheel export --to EXPORT --data DIR", EXPORT=export, DIR=data)
    await cluster.stop("n1")
    for path in (backup, export, data):
        assert await operator.run(verify, DIR=path)
    restored = str(directory / "restored")
    await operator.run("hourwheel restore BACKUP --data-dir DIR --node-id n1", BACKUP=backup, DIR=restored)
    assert await operator.run(verify, DIR=restored)


def test_each_command_of_the_page_runs(tmp_path: Path) -> None:
    """None is left, and the tests that run the others are there."""

    async def typed() -> None:
        async with Cluster(tmp_path / "nodes", spare=1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            await cluster.wait_raised()
            operator = Operator(cluster)
            await look_at_messages(operator)
            await change_nodes(operator, cluster)
            await copy_and_check(operator, cluster, tmp_path)
            assert operator.left == set()

    asyncio.run(typed())
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).is_file()] == []
