"""What tests of the node share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.leader.dispatcher import DispatchOptions
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
