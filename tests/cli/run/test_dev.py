"""`hourwheel dev` as a user meets it: real processes, one JSON line, and nothing left behind."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.cluster.ports import free_ports
from cli.connection import Connection
from cli.local.local_nodes import RAFT_PORT_OFFSET, by_port, this_build, write_config
from cli.main import main
from node.runtime.exit_code import ExitCode

END_S = 40


def free_range(count: int) -> int:
    """A port P so that P.. and P + 100.. are free for `count` nodes."""
    while True:
        ports = free_ports(RAFT_PORT_OFFSET + count)
        if ports[-1] == ports[0] + len(ports) - 1:
            return ports[0]


@contextlib.contextmanager
def dev(directory: Path, nodes: int, port: int, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """The command running; killed at the end if the test did not end it."""
    command = [sys.executable, "-m", "cli", "dev", "--dir", str(directory), "--nodes", str(nodes), "--port", str(port)]
    command += ["-o", "json", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def described(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """The nodes of the JSON line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    nodes: list[dict[str, Any]] = json.loads(line)["nodes"]
    return nodes


def wait_gone(pids: list[int]) -> None:
    """Returns when none of these processes, which are not our children, runs."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            try:
                assert select.select([fd], [], [], END_S)[0], "a node outlived its parent"
            finally:
                os.close(fd)


def figures_at(url: str, *args: str) -> dict[str, bool]:
    """Of each node, whether `cluster status` at this one says how far it is and how its clock runs."""
    result = CliRunner().invoke(main, ["cluster", "status", "--url", url, "-o", "json", *args])
    assert result.exit_code == ExitCode.OK, result.output
    nodes = json.loads(result.stdout)["nodes"]
    return {node["id"]: None not in (node["applied_index"], node["lag"], node["clock_offset_ms"]) for node in nodes}


def leads(node: dict[str, Any]) -> bool:
    """Whether this node leads."""
    return bool(Connection(node["http"]).call("GET", "/v1/node").document["leads"])


def test_three_nodes_from_one_command(tmp_path: Path) -> None:
    """One line names pids and addresses of nodes that are ready; a killed node is reported; SIGTERM ends the rest."""
    port = free_range(3)
    with dev(tmp_path / "a", 3, port) as process:
        nodes = described(process)
        assert [node["id"] for node in nodes] == ["n1", "n2", "n3"]
        assert [node["http"] for node in nodes] == [f"http://127.0.0.1:{port + i}" for i in range(3)]
        assert [node["raft"] for node in nodes] == [f"127.0.0.1:{port + RAFT_PORT_OFFSET + i}" for i in range(3)]
        for node in nodes:
            message = {"topic": "t", "body": node["id"]}
            assert Connection(node["http"]).call("POST", "/v1/messages", message).status == 201
        for node in nodes:
            assert figures_at(node["http"]) == {"n1": True, "n2": True, "n3": True}
            assert not all(figures_at(node["http"], "--local").values()) or leads(node)
        os.kill(nodes[2]["pid"], signal.SIGKILL)
        assert process.stderr is not None
        assert f"n3 (pid {nodes[2]['pid']}) ended: killed by signal 9; 2 go on" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == ExitCode.OK
        for node in nodes:
            with pytest.raises(ProcessLookupError):
                os.kill(node["pid"], 0)


def test_started_again_on_the_same_directory(tmp_path: Path) -> None:
    """What was scheduled before the stop is there after the next start, on one node too."""
    port = free_range(1)
    with dev(tmp_path / "a", 1, port) as process:
        url = described(process)[0]["http"]
        message = {"topic": "t", "body": 1, "delay": "1h"}
        message_id = Connection(url).call("POST", "/v1/messages", message).document["id"]
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == ExitCode.OK
    with dev(tmp_path / "a", 1, port) as process:
        url = described(process)[0]["http"]
        assert Connection(url).call("GET", f"/v1/messages/{message_id}").document["state"] == "scheduled"


def test_nodes_end_with_a_killed_parent(tmp_path: Path) -> None:
    """kill -9 of the command leaves no node behind."""
    with dev(tmp_path / "a", 1, free_range(1)) as process:
        pids = [node["pid"] for node in described(process)]
        process.kill()
        wait_gone(pids)


def test_a_table_and_what_to_try(tmp_path: Path) -> None:
    """Addresses, roles and the directory, in a path with a space; then how to go on with the data of before."""
    directory, port = tmp_path / "a b", free_range(1)
    with dev(directory, 1, port, "-o", "table") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=END_S)
    assert lines[0] == f"data in {directory} (a new cluster)"
    assert lines[2].split() == ["node", "http", "raft", "role", "pid"]
    row = ["n1", f"http://127.0.0.1:{port}", f"127.0.0.1:{port + RAFT_PORT_OFFSET}", "leader"]
    assert lines[3].split()[:-1] == row
    assert "Ctrl-C" in lines[5]
    assert [line.split()[:2] for line in lines[7:]] == [["hourwheel", word] for word in ("schedule", "pull", "cluster")]
    assert all(line.endswith(f"--url http://127.0.0.1:{port}") for line in lines[7:])
    assert f"the data is kept in {directory}\n" in errors
    assert f"`hourwheel dev --restart --dir '{directory}'` goes on with it" in errors


def test_restart_takes_number_and_port_from_the_directory(tmp_path: Path) -> None:
    """With neither --dir nor --nodes nor --port; refused where there is nothing to go on with."""
    command = [sys.executable, "-m", "cli", "dev", "--restart"]
    here: dict[str, Any] = {"cwd": tmp_path, "env": this_build(), "text": True}
    done = subprocess.run(command, capture_output=True, check=False, **here)
    assert (done.returncode, "holds no cluster" in done.stderr) == (ExitCode.USAGE, True), done.stderr
    port = free_range(1)
    directory = tmp_path / "hourwheel-data"
    for node in (nodes := by_port(directory, 1, port)):
        write_config(node, nodes)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **here)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        assert lines[0] == f"data in {directory} (with the data of before)\n"
        assert f"http://127.0.0.1:{port} " in lines[3]
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=END_S)
    assert "`hourwheel dev --restart` goes on with it" in errors


def test_a_config_file_of_somebody_else(tmp_path: Path) -> None:
    """Named, and left as it is."""
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "node.toml").write_text("not = a = config")
    assert "is no config file that `hourwheel dev` wrote" in refused(tmp_path, 1, free_range(1), ExitCode.DATA)


def refused(directory: Path, nodes: int, port: int, code: ExitCode) -> str:
    """Runs the command, which must end with this code by itself and name no node; what it said."""
    with dev(directory, nodes, port) as process:
        output, errors = process.communicate(timeout=END_S)
    assert process.returncode == code, errors
    assert output == ""
    assert "Traceback" not in errors
    return errors


def test_journal_taken_away(tmp_path: Path) -> None:
    """A node whose journal is gone is refused in a sentence that names its data directory."""
    port = free_range(1)
    with dev(tmp_path, 1, port) as process:
        described(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == ExitCode.OK
    data_path = by_port(tmp_path, 1, port)[0].data_path
    for segment in (data_path / "journal").iterdir():
        segment.unlink()
    assert f"hourwheel: {data_path}: the checkpoint covers" in refused(tmp_path, 1, port, ExitCode.DATA)


def test_another_cluster_on_the_ports(tmp_path: Path) -> None:
    """Nodes of another cluster that answer /readyz are not taken for ours; nothing is written."""
    port = free_range(1)
    with dev(tmp_path / "a", 1, port) as process:
        described(process)
        assert f"127.0.0.1:{port}" in refused(tmp_path / "b", 1, port, ExitCode.ADDRESS)
    assert not (tmp_path / "b").exists()


def test_running_directory_is_left_as_it_is(tmp_path: Path) -> None:
    """On the same ports and on others: the locks of the directories are met before a config is written."""
    port = free_range(1)
    with dev(tmp_path, 1, port) as process:
        described(process)
        path = by_port(tmp_path, 1, 7400)[0].config_path
        before = path.read_bytes()
        for again in (port, free_range(1)):
            assert f"a cluster runs already on {tmp_path} (n1 runs)" in refused(tmp_path, 1, again, ExitCode.DATA)
        assert path.read_bytes() == before


def test_another_number_of_nodes(tmp_path: Path) -> None:
    """A directory of three nodes is not started as one of one, nor one of five."""
    for node in (nodes := by_port(tmp_path, 3, 7400)):
        write_config(node, nodes)
    for count in (1, 5):
        assert "--nodes 3" in refused(tmp_path, count, free_range(count), ExitCode.USAGE)


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A sentence, not a traceback."""
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(tmp_path / "file" / "a", 1, free_range(1), ExitCode.DATA)


def test_port_in_use(tmp_path: Path) -> None:
    """A port that somebody has is said with its address and its node, and no node is started."""
    port = free_range(3)
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port + 1))
        holder.listen()
        errors = refused(tmp_path / "a", 3, port, ExitCode.ADDRESS)
    assert f"127.0.0.1:{port + 1}" in errors
    assert "n2" in errors
