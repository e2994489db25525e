"""A port is one process's until long after."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.cluster.ports import END, FIRST, free_ports
from cli.local.local_nodes import LOOPBACK

PROCESSES, DRAWS = 4, 100


def test_processes_that_draw_at_once_are_given_different_ports() -> None:
    """A test of `serve` was answered by a node of another run of tests: both had been given the same port."""
    program = f"from chaos.cluster.ports import free_ports\nfor _ in range({DRAWS}): print(*free_ports(2))"
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    told = [process.communicate(timeout=60)[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES
    assert len({port for ports in told for port in ports}) == PROCESSES * DRAWS * 2


def test_a_port_on_which_somebody_listens_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next ones are given, below those that the system gives to connections."""
    turn = tmp_path / "turn"
    monkeypatch.setattr("chaos.cluster.ports._turn", lambda: turn)
    with socket.create_server((LOOPBACK, 0)) as door:
        taken = door.getsockname()[1]
        turn.write_text(str(taken))
        ports = free_ports(2)
    assert taken not in ports
    assert all(FIRST <= port < END for port in ports)
    assert ports[0] < ports[1] == int(turn.read_text()) - 1
