"""The reserve of free space: who is inside it decides whether new work is taken."""

from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, MessageIn
from api.port.problem import Problem
from node.node import Node
from node.runtime.free_space import Reserve
from storage.file.disk import Disk
from storage.file.kept_free import RESERVE_BYTES
from tests.node.single_node import run_node

TIB = 1 << 40


class SizedDisk(Disk):
    """A disk of 1 TiB whose free space the test sets."""

    free = TIB

    def free_bytes(self, path: Path) -> int:
        """What the test says."""
        return self.free

    def total_bytes(self, path: Path) -> int:
        """1 TiB: the reserve is 5 % of it."""
        return TIB


@pytest.mark.parametrize(
    ("free", "low_peers", "refused"),
    [(TIB, 0, False), (TIB, 1, False), (TIB, 2, True), (TIB // 20 - 1, 0, True), (TIB // 20, 0, False)],
)
def test_the_leader_or_a_majority_inside_the_reserve_refuses_new_work(free: int, low_peers: int, refused: bool) -> None:
    """One low follower of two does not; two do; the leader alone does."""
    disk = SizedDisk()
    disk.free = free
    reserve = Reserve(Path("/nowhere"), disk, nodes=lambda: 3, low_peers=lambda: low_peers)
    if refused:
        with pytest.raises(Problem) as problem:
            reserve.check()
        assert problem.value.code == "disk-full"
    else:
        reserve.check()


def test_a_leader_that_refuses_new_messages_says_so_and_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out of a load balancer it would get no acks either, which make room; who looks is told all the same."""

    async def play(node: Node) -> None:
        assert (await node.front.ready()).checks["disk"] == "ok"
        monkeypatch.setattr(node.group.reserve._disk, "free_bytes", lambda path: 0)
        node.group.reserve.measure()
        with pytest.raises(Problem) as refused:
            await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        assert refused.value.code == "disk-full"
        state = await node.front.ready()
        assert state.ready
        assert state.checks["disk"] == f"new messages are refused: {refused.value.detail}"

    run_node(tmp_path / "n1", play)


def test_a_node_that_does_not_lead_says_what_it_knows_of_its_own_space() -> None:
    """Whether new messages are refused the leader decides, by all of them."""
    disk = SizedDisk()
    reserve = Reserve(Path("/nowhere"), disk, nodes=lambda: 3, low_peers=lambda: 2)
    assert reserve.verdict(leads=False) == "ok"
    assert "on 2 of 3 nodes" in reserve.verdict(leads=True)
    disk.free = RESERVE_BYTES - 1
    reserve.measure()
    assert reserve.verdict(leads=False).startswith("free space of this node")


def test_it_recovers_by_itself() -> None:
    """Space that comes back is seen at the next measurement."""
    disk = SizedDisk()
    disk.free = RESERVE_BYTES - 1
    reserve = Reserve(Path("/nowhere"), disk, nodes=lambda: 1, low_peers=lambda: 0)
    with pytest.raises(Problem):
        reserve.check()
    disk.free = TIB
    reserve.measure()
    reserve.check()
