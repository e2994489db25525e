"""Everything fails while a node takes a snapshot over, by seed; and what the journal of the others holds meanwhile."""

from random import Random
from typing import Any

import pytest

from api.port.port import ANONYMOUS, MessageIn
from chaos.client.outcome import Outcome
from chaos.simulator.world.world import World
from node.group.group import Group
from replication.journal.record import NO_OP
from tests.chaos.simulator.small_load import Load

CONFIG = {
    "storage": {
        "checkpoint_s": 1,
        "checkpoint_journal_mb": 1,
        "journal_keep_mb": 1,
        "snapshot_journal_mb": 64,
        "snapshot_mb_per_s": 2,
    }
}
FAR_MS = 72 * 3_600_000


class Snapshots:
    """A world in which every start from a snapshot is counted, by node."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.load = Load(world)
        self.taken_over = dict.fromkeys(world.ids, 0)
        self.filled: list[Outcome[Any]] = []
        world.on_group = self._made

    def _made(self, node_id: str, group: Group) -> None:
        journal = group.journal
        if journal.first_index == journal.last_index > 1 and journal[0][0] == NO_OP:
            self.taken_over[node_id] += 1

    def fill(self, count: int = 300) -> None:
        """A batch through the leader; its outcome comes in time."""
        leader = self.world.leader()
        if leader is not None:
            batch = [MessageIn("far", b"x" * 1000, "text/plain", delay_ms=FAR_MS) for _ in range(count)]
            client = self.world.client(leader)
            client.call(lambda port: port.schedule(batch, ANONYMOUS), self.filled.append, label="fill")

    def strand(self, away: str) -> None:
        """Take this node away and fill until no other has in its journal what it needs next."""
        world = self.world
        node = world.processes[away].node
        assert node is not None
        index = node.group.machine.applied_index
        world.processes[away].kill()
        for _ in range(60):
            self.fill()
            world.run(0.3)
            if all(other.group.journal.first_index > index + 1 for other in world.nodes().values()):
                return
        raise AssertionError("the journals were not trimmed")

    def settle(self, seconds: float = 15) -> None:
        """Mend everything; then nothing acknowledged is missing, nobody complained, all nodes hold the same."""
        world = self.world
        world.network.heal_all()
        for process in world.processes.values():
            process.resume()
        for _ in range(5):
            world.start()  # again: a crash at an operation may have been still to come
            world.run(seconds / 5)
        assert self.load.acknowledged <= self.load.handed_over
        assert [process.failure for process in world.processes.values()] == [None, None, None]
        assert [process.errors for process in world.processes.values()] == [[], [], []]
        digests = world.digests()
        assert len(digests) == 3
        assert len(set(digests.values())) == 1, digests
        wanted = sum(len(each.result.ids) for each in self.filled if each.kind == "ok")
        held = [node.group.store.unit_count for node in world.nodes().values()]
        assert min(held) >= wanted, (held, wanted)


def begun(seed: int) -> tuple[World, Snapshots, str]:
    """A world under load in which a follower is down and stranded."""
    world = World(seed, config=CONFIG, turn_s=300)
    snapshots = Snapshots(world)
    snapshots.load.found()
    snapshots.load.consume()
    snapshots.load.schedule(100, per_second=10)
    away = next(node_id for node_id in world.ids if node_id != world.leader())
    snapshots.strand(away)
    return world, snapshots, away


@pytest.mark.parametrize("wipe", [False, True])
def test_it_catches_up_under_load(wipe: bool) -> None:
    """A node that was away for too long, or comes back empty, has everything again after one snapshot."""
    world, snapshots, away = begun(3)
    with world:
        if wipe:
            world.processes[away].wipe()
        world.start(away)
        assert world.run_until(lambda: snapshots.taken_over[away] == 1, 20)
        snapshots.settle()
        assert snapshots.taken_over[away] == 1


def test_a_seed_with_snapshots_is_one_history() -> None:
    """Twice the same trace: what a snapshot does in threads follows from the seed as well."""

    def run() -> str:
        world, snapshots, away = begun(4)
        with world:
            world.start(away)
            world.run(4)
            assert snapshots.taken_over[away] == 1
            return world.trace.hexdigest()

    assert run() == run()


def harm(world: World, away: str, random: Random) -> None:
    """Something goes wrong for a while."""
    other = random.choice([node_id for node_id in world.ids if node_id != away])
    which = random.choice([away, away, other, world.leader() or other])
    what = random.choice(("kill", "power cut", "crash", "pause", "cut"))
    process, back_s = world.processes[which], random.uniform(0.1, 1.5)
    if what == "cut":
        a, b = random.sample(world.ids, 2)
        world.network.cut(a, b)
        world.after(back_s, world.network.heal, a, b)
    elif process.alive and what == "pause":
        process.pause()
        world.after(back_s, process.resume)
    elif process.alive:
        act = {"kill": process.kill, "power cut": process.power_cut}
        act.get(what, lambda: process.crash_at(random.randint(1, 60)))()
        world.after(back_s, world.start)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_fails_on_the_way(seed: int) -> None:
    """Kills, power cuts, crashes at an operation of a disk, pauses and cuts, of both ends and the third: it takes a
    snapshot over in the end, and nothing is lost."""
    world, snapshots, away = begun(100 + seed)
    with world:
        random = world.random("harm")
        world.start(away)
        for _ in range(8):
            world.run(random.uniform(0.05, 0.8))
            harm(world, away, random)
            if random.random() < 0.3:
                snapshots.fill(50)
        snapshots.settle(25)
        assert snapshots.taken_over[away] >= 1


def journal_peak(seconds: float) -> tuple[int, int]:
    """The most that any journal held, and what was written to one in all, in bytes: under a steady load of 100 KB a
    second, with a follower that is away for the middle third of the time."""
    world = World(9, config=CONFIG, turn_s=300)
    snapshots = Snapshots(world)
    with world:
        snapshots.load.found()
        away = next(node_id for node_id in world.ids if node_id != world.leader())
        world.after(seconds / 3, world.processes[away].kill)
        world.after(2 * seconds / 3, world.start)
        peak = 0
        for _ in range(int(seconds / 2)):
            snapshots.fill(200)
            world.run(2)
            peak = max(peak, *(node.group.journal.kept_bytes for node in world.nodes().values()))
        snapshots.settle()
        assert snapshots.taken_over[away] == 1
        return peak, max(node.group.journal.written_bytes for node in world.nodes().values())


def test_the_journal_is_bounded() -> None:
    """What it holds depends on the settings and not on how long there is load, nor on a node that is away."""
    peak, written = journal_peak(90)
    assert written > 2 * peak
    assert peak < 4 << 20, "a MiB that is kept, a MiB or a second between checkpoints, segments, a checkpoint's time"
