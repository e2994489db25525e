"""`hourwheel serve` refuses what it cannot run on: each cause with its own exit code and a sentence, never a
traceback.
"""

import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.cluster.ports import free_ports
from cli.local.local_nodes import LocalNode, write_config
from cli.main import main
from node.runtime.config import Config
from node.runtime.exit_code import ExitCode
from replication.command.entry import UnknownCommand
from storage.directory.data_directory import DataDirectory
from storage.file.disk import Disk
from tests.waiting import wait_until

END_S = 40


def local_node(directory: Path) -> LocalNode:
    """A single node with free ports and its config written."""
    http_port, raft_port = free_ports(2)
    node = LocalNode("n1", http_port, raft_port, directory / "n1")
    write_config(node, [node])
    return node


def refused(node: LocalNode, code: ExitCode) -> str:
    """Runs serve, which must end with this code by itself; what it said."""
    command = [sys.executable, "-m", "cli", "serve", "--config", str(node.config_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_config_with_an_unknown_key(tmp_path: Path) -> None:
    """The file, the key and the nearest known one."""
    node = local_node(tmp_path)
    node.config_path.write_text(node.config_path.read_text().replace("node_id", "nodeid"))
    said = refused(node, ExitCode.CONFIG)
    assert str(node.config_path) in said
    assert "nodeid" in said
    assert "node_id" in said


def test_listen_address_that_is_not_loopback(tmp_path: Path) -> None:
    """Refused until `insecure = true`; says so."""
    node = local_node(tmp_path)
    text = node.config_path.read_text().replace(f'listen = "{node.http}"', f'listen = "0.0.0.0:{node.http_port}"')
    node.config_path.write_text(text)
    assert "insecure = true" in refused(node, ExitCode.CONFIG)


def test_missing_config(tmp_path: Path) -> None:
    """A path that is not there."""
    node = LocalNode("n1", 1, 2, tmp_path / "nowhere")
    assert str(node.config_path) in refused(node, ExitCode.CONFIG)


def test_port_in_use(tmp_path: Path) -> None:
    """HTTP and Raft alike."""
    node = local_node(tmp_path)
    for port in (node.http_port, node.raft_port):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", port))
            holder.listen()
            assert f"127.0.0.1:{port}" in refused(node, ExitCode.ADDRESS)


def test_data_directory_of_another_node(tmp_path: Path) -> None:
    """Whose it is, and who was refused; the directory is left as it was."""
    node = local_node(tmp_path)
    DataDirectory.open(node.data_path, "n7", Disk(), bytes(16)).close()
    before = sorted(path.name for path in node.data_path.iterdir())
    said = refused(node, ExitCode.DATA)
    assert "n7" in said
    assert "n1" in said
    assert sorted(path.name for path in node.data_path.iterdir()) == before


def test_entry_of_a_newer_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that this build cannot read ends the node with the kind it met and what to do."""

    async def run(config: Config) -> None:
        raise UnknownCommand("command kind 77 is unknown to this node")

    monkeypatch.setattr("node.process.run", run)
    result = CliRunner().invoke(main, ["serve", "--config", str(local_node(tmp_path).config_path)])
    assert result.exit_code == ExitCode.DATA
    assert "kind 77 is unknown to this node; use a newer build" in result.stderr


def test_data_directory_in_use(tmp_path: Path) -> None:
    """Another process holds it."""
    node = local_node(tmp_path)
    held = DataDirectory.open(node.data_path, "n1", Disk(), bytes(16))
    try:
        assert str(node.data_path) in refused(node, ExitCode.DATA)
    finally:
        held.close()


@pytest.mark.parametrize("lost", ["full", "unread"])
def test_a_log_that_cannot_be_written_ends_nobody(tmp_path: Path, lost: str) -> None:
    """On a full disk, or with nobody at the other end: the node serves, ends in order, and a refusal keeps its code."""
    node = local_node(tmp_path)
    command = [sys.executable, "-m", "cli", "serve", "--config", str(node.config_path)]
    if lost == "full":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        unread, output = os.pipe()
        os.close(unread)
    try:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:

            def serves() -> bool:
                assert process.poll() is None
                return ready(node)

            wait_until(serves, END_S)
        finally:
            process.terminate()
            assert process.wait(END_S) == 0
        node.config_path.write_text("nodeid = 1\n")
        assert subprocess.run(command, stdout=output, stderr=output, check=False).returncode == ExitCode.CONFIG
    finally:
        os.close(output)


def ready(node: LocalNode) -> bool:
    """Whether it says so."""
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
