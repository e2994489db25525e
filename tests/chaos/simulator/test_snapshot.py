"""A node that was away for longer than the others keep journal takes over a snapshot and starts again in place."""

import pytest

from api.port.port import ANONYMOUS, MessageIn
from chaos.simulator.world.world import World
from tests.chaos.simulator.small_load import Load
from tests.chaos.simulator.world.test_world import finish

#: Journals of a megabyte, in segments of a quarter.
CONFIG = {"storage": {"checkpoint_s": 1, "journal_keep_mb": 1, "checkpoint_journal_mb": 1}}


def strand(world: World, load: Load, how: str) -> str:
    """Take a follower away (kill, power-cut, wipe) while the others write four megabytes; which one. It is down."""
    leader = world.leader()
    victim = next(each for each in world.ids if each != leader)
    process = world.processes[victim]
    if how == "power-cut":
        process.power_cut(torn=True)
    else:
        process.kill()
    if how == "wipe":
        process.wipe()
    client = load.clients[world.ids.index(leader or "n1")]
    for number in range(20):
        message = MessageIn(topic="queue", body=bytes([number]) * 200_000, delay_ms=2_000)
        world.after(
            number * 0.1,
            lambda message=message: client.call(
                lambda port: port.schedule([message], ANONYMOUS), load.outcomes.append, label="large"
            ),
        )
    world.run(7)
    others = [node for node_id, node in world.nodes().items() if node_id != victim]
    assert all(node.group.journal.first_index > 1 for node in others), "nobody kept the beginning of the journal"
    return victim


@pytest.mark.parametrize("how", ["kill", "power-cut", "wipe"])
def test_a_stranded_node_comes_back(how: str) -> None:
    """It gets the files, the node is made anew in the same process, and in the end it has what the others have."""
    with World(21, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(20)
        world.run(2)
        victim = strand(world, load, how)
        made: list[str] = []
        world.on_group = lambda node_id, _: made.append(node_id)
        finish(world, load)
        assert made == [victim] * 2, "once at the start, once with the snapshot in place"
        assert world.processes[victim].ends[1:] == []


def test_a_node_that_dies_again_and_again_while_it_takes_over_gets_there() -> None:
    """Crashes at disk operations of the installation, power cuts among them: the old state or the new, then the new."""
    with World(22, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(20)
        world.run(2)
        process = world.processes[strand(world, load, "kill")]
        for count in (20, 30, 40, 50, 60, 70):
            process.start()
            process.crash_at(count)
            world.run_until(lambda: not process.alive, 4)
            process.power_cut(torn=True)
        finish(world, load)
