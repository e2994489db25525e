"""A node where Linux's calls are missing (elsewhere/sitecustomize.py), as a newcomer on a Mac has it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.connection import Connection
from cli.local.local_nodes import python_path
from node.runtime.exit_code import ExitCode
from tests.cli.run.test_dev import END_S, described, dev, free_range, wait_gone

ELSEWHERE = Path(__file__).parent / "elsewhere"
ROOT = Path(__file__).parents[3]
FOR_DEVELOPMENT = "for development only"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python that is started from here on has none of the calls."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ELSEWHERE), *python_path(ROOT)]))


def schedule_and_pull(url: str) -> None:
    """One message comes, and is settled."""
    node = Connection(url)
    assert node.call("POST", "/v1/messages", {"topic": "t", "body": "here"}).status == 201
    (message,) = node.call("POST", "/v1/topics/t/pull", {"wait": "20s"}).document["messages"]
    assert message["body"] == "here"
    acked = node.call("POST", "/v1/topics/t/ack", {"receipts": [message["receipt"]]}).document
    assert acked["results"][0]["result"] == "acked"


def test_the_calls_are_missing_there(elsewhere: None) -> None:
    """Or the tests below would show nothing."""
    program = (
        "import os, select, sys; print(sys.platform, [hasattr(os, 'fdatasync'), hasattr(select, 'epoll')], end='')"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "darwin [False, False]"


@pytest.mark.parametrize("has_full_sync", [True, False])
def test_a_cluster_for_development_runs_there(
    elsewhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_full_sync: bool
) -> None:
    """Schedule, pull, stop and start again. Its log says once what it is for; F_FULLFSYNC is called where there is
    one, at each message."""
    told = tmp_path / "full-syncs"
    told.touch()
    if has_full_sync:
        monkeypatch.setenv("FULL_SYNC_CALLS", str(told))
    port = free_range(1)
    for start in (1, 2):
        with dev(tmp_path / "d", 1, port) as process:
            (node,) = described(process)
            before = len(told.read_text().splitlines())
            schedule_and_pull(node["http"])
            assert (len(told.read_text().splitlines()) > before) is has_full_sync
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == ExitCode.OK
            log = Path(node["log"]).read_text()
            assert log.count(FOR_DEVELOPMENT) == start
            assert "Traceback" not in log


def test_a_node_ends_there_with_a_killed_parent(elsewhere: None, tmp_path: Path) -> None:
    """Without prctl it looks itself."""
    with dev(tmp_path / "d", 1, free_range(1)) as process:
        pids = [node["pid"] for node in described(process)]
        process.kill()
        wait_gone(pids)


def test_on_linux_nothing_is_said(tmp_path: Path) -> None:
    """There it is for production."""
    with dev(tmp_path / "d", 1, free_range(1)) as process:
        (node,) = described(process)
        schedule_and_pull(node["http"])
        assert FOR_DEVELOPMENT not in Path(node["log"]).read_text()


@pytest.mark.timeout(150)
def test_the_demo_runs_there(elsewhere: None, tmp_path: Path) -> None:
    """200 messages, and those of wishes and batches beside them, the leader killed: all of them come."""
    command = [sys.executable, "-m", "bench.demo", "--dir", str(tmp_path / "demo"), "--count", "200", "--seconds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (figures,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert (figures["lost"], figures["early"]) == (0, 0)
    assert figures["delivered"] + figures["replaced"] >= figures["scheduled"] > 200
