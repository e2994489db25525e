"""A catalog that was cut short, on real processes: `verify` and `serve` end with a sentence and their exit code."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from node.runtime.exit_code import ExitCode
from reconcile.files.node import read_node
from reconcile.files.problem import DAMAGED

END_S = 40
PAGE = 4096


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Config and data directory of a node that took messages with keys in several hours, and was stopped."""

    async def serve() -> tuple[Path, Path]:
        async with Cluster(tmp_path_factory.mktemp("cut"), count=1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            node = cluster.nodes["n1"]
            call = Connection(node.url).call
            for number in range(200):
                message = {"topic": f"t{number % 50}", "body": 1, "delay": f"{number % 5 + 1}h", "key": f"key-{number}"}
                await asyncio.to_thread(call, "POST", "/v1/messages", message)
            await cluster.stop("n1")
            return node.config_path, node.data_path

    return asyncio.run(serve())


@pytest.fixture
def catalog(stopped: tuple[Path, Path]) -> Iterator[Path]:
    """The catalog's file; what a test does to it is undone."""
    path = stopped[1] / "catalog" / "data.mdb"
    whole = path.read_bytes()
    yield path
    path.write_bytes(whole)


def said(code: ExitCode, *arguments: object) -> str:
    """Runs the command in a process of its own, which must end with this code; what it said on stderr."""
    command = [sys.executable, "-m", "cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def cuts(path: Path) -> list[int]:
    """Lengths to cut the file to: whole pages and torn ones, near its end, in its middle, within the meta pages."""
    pages = path.stat().st_size // PAGE
    return [pages // 2 * PAGE, pages // 2 * PAGE + 1000, (pages - 3) * PAGE + 129, 3 * PAGE, 2 * PAGE, PAGE, 100]


def test_a_cut_catalog_ends_verify_with_a_sentence(stopped: tuple[Path, Path], catalog: Path) -> None:
    """Exit 11 and the file's name, where it was signal 7 and not a word."""
    whole = catalog.read_bytes()
    for length in cuts(catalog):
        catalog.write_bytes(whole[:length])
        told = said(ExitCode.DATA, "verify", stopped[1])
        assert str(catalog) in told
        assert "cut short" in told


def test_a_cut_catalog_ends_serve_with_a_sentence(stopped: tuple[Path, Path], catalog: Path) -> None:
    """The node does not start, says why, and leaves the directory as it was."""
    whole = catalog.read_bytes()
    hours = sorted((stopped[1] / "hours").iterdir())
    assert hours
    for length in cuts(catalog)[1:3]:
        catalog.write_bytes(whole[:length])
        told = said(ExitCode.DATA, "serve", "--config", stopped[0])
        assert str(catalog) in told
        assert "cut short" in told
    assert sorted((stopped[1] / "hours").iterdir()) == hours


def test_an_emptied_catalog_is_not_a_new_one(stopped: tuple[Path, Path], catalog: Path) -> None:
    """A file of no bytes beside hours is damage: the node does not begin anew, and removes no hour."""
    hours = sorted((stopped[1] / "hours").iterdir())
    catalog.write_bytes(b"")
    for command in (("verify", stopped[1]), ("serve", "--config", stopped[0])):
        assert "data.mdb" in said(ExitCode.DATA, *command)
    assert sorted((stopped[1] / "hours").iterdir()) == hours


def test_reconcile_names_a_cut_catalog(stopped: tuple[Path, Path], catalog: Path) -> None:
    """The reconciliation goes on without it, and says which node's catalog is cut short."""
    catalog.write_bytes(catalog.read_bytes()[: 3 * PAGE])
    [problem] = read_node(stopped[1]).problems
    assert (problem.kind, problem.file) == (DAMAGED, "catalog")
    assert "cut short" in problem.what


def test_a_signal_of_the_machine_says_where_it_struck(tmp_path: Path) -> None:
    """A file cut while it is mapped is still signal 7; the log of the node then has the stack."""

    async def struck() -> tuple[int, str]:
        async with Cluster(tmp_path, count=1) as cluster:
            cluster.start()
            await cluster.wait_ready()
            os.kill(cluster.pid("n1"), signal.SIGBUS)
            return await cluster.ended("n1"), cluster.nodes["n1"].log_path.read_text()

    code, log = asyncio.run(struck())
    assert code == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in log
    assert "most recent call first" in log
