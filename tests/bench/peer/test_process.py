"""Peers: their protocols as far as they are spoken, what is missing is said, what is there is really measured."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.client.load import BATCH
from bench.peer import beanstalkd, postgres, redis
from bench.peer.process import Missing, find, free_port, running
from bench.run import PEERS
from bench.scale import Scale
from chaos.cluster.cluster import ClusterFailed


def test_missing_program_is_named() -> None:
    """With what to do about it."""
    with pytest.raises(Missing, match="no-such-server is not installed"):
        find("no-such-server")


def test_server_that_does_not_come_up(tmp_path: Path) -> None:
    """The end of its log is in the error, and nothing is left running."""
    command = ["/bin/sh", "-c", "echo no room; exit 3"]
    with pytest.raises(ClusterFailed, match="no room"), running(command, free_port(), tmp_path / "log"):
        raise AssertionError("it listens")


def test_server_is_ended_by_its_pid(tmp_path: Path) -> None:
    """With the signal it wants."""
    port = free_port()
    serve = (
        "import os,signal,socket,sys;s=socket.socket();s.bind(('127.0.0.1',int(sys.argv[1])));s.listen();"
        "open('pid','w').write(str(os.getpid()));signal.signal(signal.SIGINT,lambda *_:sys.exit(0));signal.pause()"
    )
    command = [find("python3"), "-c", serve, str(port)]
    with running(command, port, tmp_path / "log", stop=signal.SIGINT):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            pass
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_redis_frames() -> None:
    """Replies are whole when all lines are in; an error ends the run."""
    three = redis.integers(3)
    assert three(bytearray(b":1\r\n:1\r\n:")) is None
    assert three(bytearray(b":1\r\n:1\r\n:1\r\n")) == (0, 0, 12)
    assert redis.array(bytearray(b"*2")) is None
    assert redis.array(bytearray(b"*2\r\n$1\r\na\r\n$1\r\n")) is None
    assert redis.array(bytearray(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n")) == (0, 0, 18)
    assert redis.array(bytearray(b"*0\r\n")) == (0, 0, 4)
    with pytest.raises(ClusterFailed, match="NOAUTH"):
        redis.array(bytearray(b"-NOAUTH\r\n"))


def test_redis_requests_are_never_repeated() -> None:
    """The second turn goes to another key."""
    requests = redis.again(redis.zadds([5]), iter((0, 7)))
    first, second = requests
    assert first == redis.command(b"ZADD", b"bench0000", b"5", b"00000000" + b"x" * 98)
    assert second == first.replace(b"bench0000", b"bench0007")


def test_postgres_frames() -> None:
    """An answer ends with ReadyForQuery; an error ends the run."""
    ready = b"Z\x00\x00\x00\x05I"
    done = b"C\x00\x00\x00\x0fINSERT 0 1\x00"
    assert postgres.frame(bytearray(done)) is None
    assert postgres.frame(bytearray(done + ready[:-1])) is None
    assert postgres.frame(bytearray(done + ready)) == (0, 0, len(done + ready))
    with pytest.raises(ClusterFailed, match="syntax"):
        postgres.frame(bytearray(b"E\x00\x00\x00\x20SERROR\x00Msyntax\x00" + ready))


def test_beanstalkd_consumer() -> None:
    """Reserves, deletes what it got, reserves again when it got nothing."""
    taker = beanstalkd.Taker()
    assert taker.request().count(b"reserve") == 1_000
    answer = b"RESERVED 7 1\r\nx\r\n" + b"TIMED_OUT\r\n" * 999
    assert taker.frame(bytearray(answer[:-1])) is None
    assert taker.frame(bytearray(answer)) == (0, 0, len(answer))
    taker.answered(0, answer, 0.0)
    assert taker.request() == b"delete 7\r\n"
    assert taker.frame(bytearray(b"DELETED\r\n")) == (0, 0, 9)
    taker.answered(0, b"DELETED\r\n", 0.0)
    assert taker.deleted == 1
    assert b"reserve" in taker.request()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A folder that other users may enter: PostgreSQL does not run as root, and pytest's folders are closed."""
    with tempfile.TemporaryDirectory(prefix="hourwheel-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("name", sorted(PEERS))
def test_measured_for_real(name: str, open_directory: Path) -> None:
    """Where it is installed: four figures, and everything that was put in taken out."""
    try:
        rows = asyncio.run(PEERS[name](open_directory, Scale(seconds=0.2, peer_drain=2 * BATCH)))
    except Missing as missing:
        pytest.skip(str(missing))
    assert [row.system for row in rows] == [name] * 4
    assert all(row.value is not None and row.value > 0 for row in rows)
    assert rows[-1].detail["messages"] == 2 * BATCH
