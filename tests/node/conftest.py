"""What tests of the node share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

from node.environment import Environment
from node.leader.dispatcher import DispatchOptions
from node.port.loopback import FramedReceivers, framed_group
from replication.wire.listener import AsyncTransport
from tests.node.one_leader import T0, Leader

MakeLeader = Callable[..., Leader]


@pytest.fixture
def make_leader(tmp_path: Path) -> Iterator[MakeLeader]:
    """Makes leaders on directories of their own, not yet promoted; closes their stores."""
    leaders: list[Leader] = []

    def make(**options: int | bool) -> Leader:
        leaders.append(Leader(tmp_path / f"n{len(leaders)}", DispatchOptions(**options)))  # type: ignore[arg-type]
        return leaders[-1]

    yield make
    for leader in leaders:
        leader.store.close()


@pytest.fixture
def leader(make_leader: MakeLeader) -> Leader:
    """One leader, promoted at T0 over an empty store."""
    leader = make_leader()
    assert leader.promote(T0) is None
    leader.run(T0)
    leader.commit(T0)
    return leader


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch, between: None) -> None:
    """Calls between a front and its groups, whatever `--border` says: what is asked does not cross as bytes."""
    monkeypatch.setattr(Environment, "fronted", lambda self, port: port)


@pytest.fixture(params=["calls", "http"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a node asks the leader: by calls, or, of a build that knows none, by passing requests on as they came."""
    if request.param == "http":
        monkeypatch.setattr(AsyncTransport, "reads_calls", lambda self, peer: None)
    return str(request.param)


@pytest.fixture(autouse=True)
def between(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between a node's front, its groups and its push wire: half of the tests have the codec there, so that
    nothing but bytes crosses. `--border` says which for all of them."""
    border = request.config.getoption("--border")
    if border == "framed" or (border == "half" and crc32(request.node.nodeid.encode()) % 2):
        monkeypatch.setattr(Environment, "receivers", lambda self, wire: FramedReceivers(wire))
        monkeypatch.setattr(Environment, "fronted", lambda self, port: framed_group(port))
