"""The reserve of free space: who is inside it decides whether new work is taken."""

from pathlib import Path

import pytest

from api.problem import Problem
from node.reserve import Reserve
from storage.disk import Disk
from storage.room import RESERVE_BYTES

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
