"""Backups of simulated nodes: under load, and when the node dies at any moment of one."""

from pathlib import Path

import pytest

from chaos.simulator.world.world import World
from storage.directory.backup import PART, verify_backup
from tests.chaos.simulator.small_load import Load
from tests.chaos.simulator.world.test_world import finish


def backups(world: World, node_id: str) -> list[Path]:
    """What stands in the node's place for backups, parts left out."""
    place = world.nodes()[node_id].config.backup_directory
    return [path for path in place.glob("*") if not path.name.endswith(PART)] if place.exists() else []


def test_backup_under_load() -> None:
    """A follower writes one while messages come and go: sound, at one index, and the cluster's promises hold."""
    with World(31) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(40)
        world.run(2)
        follower = next(each for each in world.ids if each != world.leader())
        written: list[object] = []
        load.clients[world.ids.index(follower)].http("POST", "/v1/cluster/snapshot", written.append)
        load.schedule(40)
        assert world.run_until(lambda: bool(written), 10)
        (path,) = backups(world, follower)
        report = verify_backup(path)
        assert report.sound, report.faults
        assert 0 < report.applied_index <= world.nodes()[follower].group.machine.applied_index
        finish(world, load)


@pytest.mark.parametrize("at", [9, 20])
def test_power_cut_while_a_backup_is_written(at: int) -> None:
    """At this disk operation from its beginning on: what has a backup's name is whole, and the node comes back."""
    with World(32) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(20)
        world.run(2)
        victim = next(each for each in world.ids if each != world.leader())
        process = world.processes[victim]
        load.clients[world.ids.index(victim)].http("POST", "/v1/cluster/snapshot", lambda _: None)
        process.crash_at(at)
        assert world.run_until(lambda: not process.alive, 10)
        process.power_cut(torn=True)
        process.start()
        finish(world, load)
        assert all(verify_backup(path).sound for path in backups(world, victim))
