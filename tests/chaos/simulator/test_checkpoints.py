"""Nodes of a cluster checkpoint in turn, so that no two keep their disks busy at once."""

from itertools import pairwise

import pytest

from chaos.simulator.world.world import World
from node.upkeep.checkpointer import CHECK_S, Checkpointer
from tests.chaos.simulator.small_load import Load

EACH_S = 3


def test_nodes_that_start_together_checkpoint_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first one on, and after a time in which nothing happened, which is not a whole number of intervals."""
    made: list[tuple[float, Checkpointer]] = []
    checkpoint = Checkpointer._checkpoint

    async def noted(self: Checkpointer) -> None:
        made.append((world.now_s, self))
        await checkpoint(self)

    monkeypatch.setattr(Checkpointer, "_checkpoint", noted)
    with World(3, config={"storage": {"checkpoint_s": EACH_S}}) as world:
        load = Load(world)
        load.found()
        for idle_s in (0, 40.7):
            world.run(idle_s)
            made.clear()
            load.schedule(400)
            world.run(5 * EACH_S)
            times = [at_s for at_s, _ in made]
            assert len({node for _, node in made}) == 3
            assert len(made) >= 12
            assert min(after - at for at, after in pairwise(times)) > EACH_S / 3 - 2 * CHECK_S
            world.run(10)
