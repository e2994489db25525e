"""What makes another cluster of a run's backup."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.history.event import Fault
from chaos.history.history import History
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator import restorer
from chaos.simulator.restorer import Restorer
from chaos.simulator.world.world import World
from storage.directory.snapshot_install import InstallRefused


@pytest.mark.parametrize(("flipped", "refused"), [("n1", True), ("n2", False), ("", False)])
def test_a_backup_is_refused_where_a_fault_had_damaged_the_node_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flipped: str, refused: bool
) -> None:
    """Seed 42722: a bit of n1's catalog was flipped, and nobody had read it when the backup was written. Any other
    backup is as good as it was."""

    def refuse(*arguments: object) -> None:
        raise InstallRefused("corrupt: catalog")

    monkeypatch.setattr(restorer, "restore", refuse)
    plan = FaultPlan.parse("plan seed=1 nodes=3 seconds=1")
    with World(1, tmp_path) as world:
        one = Restorer(world, History(), plan, {})
        one._of = "n1"
        one._history.record(
            Fault(mono_ms=1.0, wall_ms=1, kind="flip", node=flipped, role="follower", phase="begin", detail="")
        )
        restored: Any = SimpleNamespace(now_ms=1, processes=world.processes)
        if refused:
            assert not one._restore(restored, "n2", tmp_path)
        else:
            with pytest.raises(InstallRefused):
                one._restore(restored, "n2", tmp_path)
