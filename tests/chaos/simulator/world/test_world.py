"""Whole worlds: three real nodes on virtual time do what real ones do, the same way for the same seed."""

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.client.outcome import Outcome
from chaos.simulator.run import at_one_index
from chaos.simulator.world.environment import SimEnvironment
from chaos.simulator.world.receivers import Behaviour
from chaos.simulator.world.world import World
from node.group.group import Group
from replication.journal.record import NO_OP
from storage.directory.verify import verify
from storage.format.level import LEVELS
from tests.chaos.simulator.small_load import Load

CONFIG = {"storage": {"checkpoint_s": 1}}


def finish(world: World, load: Load, seconds: float = 12) -> None:
    """Mend everything, let it settle, and see that nothing acknowledged is lost, all nodes agree, nobody complained."""
    world.network.heal_all()
    for process in world.processes.values():
        process.resume()
    world.start()
    world.run(seconds)
    assert load.acknowledged, "nothing was acknowledged: that says nothing"
    assert load.acknowledged <= load.handed_over
    digests = world.digests()
    assert len(digests) == 3
    assert len(set(digests.values())) == 1, digests
    assert [process.errors for process in world.processes.values()] == [[], [], []]


def run_once(seed: int, framed: bool | None = None) -> str:
    """A run with a kill, a torn power cut and a pause; its trace's hash."""
    with World(seed, config=CONFIG, framed=framed) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(60)
        world.after(1.0, world.processes[world.leader() or "n1"].kill)
        world.after(2.0, world.start)
        world.after(2.5, lambda: world.processes[world.leader() or "n1"].power_cut(torn=True))
        world.after(3.0, world.start)
        world.after(3.2, lambda: world.processes[world.leader() or "n1"].pause())
        world.run(4.5)
        finish(world, load)
        return world.trace.hexdigest()


def test_a_quiet_world_hands_over_everything_once() -> None:
    """Three nodes elect a leader; what is scheduled through each of them comes out by pull and by push, once each."""
    with World(1, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(40)
        world.run(5)
        finish(world, load, 2)
        assert len(load.acknowledged) == 40
        assert len(load.pulled) == 20
        assert [each.attempt for each in world.receivers.log] == [1] * 20
        assert {each.status for each in world.receivers.log} == {200}


def test_a_group_pushes_the_same_when_all_that_crosses_is_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What crosses its border with the push wire holds nothing that bytes lose. Calls of a front take their steps of
    the loop there, so that what happens at one moment does so in another order."""
    monkeypatch.setattr(SimEnvironment, "fronted", lambda self, port: port)
    assert run_once(1, framed=True) == run_once(1, framed=False)


def test_in_half_of_the_worlds_all_that_crosses_is_bytes() -> None:
    """In two seeds of four: odd ones have other clocks."""
    framed = []
    for seed in range(4):
        with World(seed, nodes=1) as world:
            framed.append(world._around.framed)
    assert framed == [False, False, True, True]


def test_another_seed_is_another_history() -> None:
    """Else the trace would say nothing."""
    traces = set()
    for seed in (1, 2):
        with World(seed) as world:
            world.start()
            world.run(2)
            traces.add(world.trace.hexdigest())
    assert len(traces) == 2


def test_a_node_that_loses_power_while_it_writes_comes_back() -> None:
    """Torn power cuts of all nodes at once, again and again: what was acknowledged is still there."""
    with World(2, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(120, delay_ms=8_000)
        for _ in range(5):
            world.run(1.3)
            for process in world.processes.values():
                process.power_cut(torn=True)
            world.start()
        finish(world, load)


@pytest.mark.parametrize("first", [1, 9])
def test_a_crash_at_any_disk_operation_loses_nothing(first: int) -> None:
    """The leader ends at the k-th write, sync, rename... of its journal and its checkpoints, for many k."""
    with World(first, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(100, delay_ms=6_000)
        ends: list[str] = []
        world.on_end = lambda end: ends.append(end.how)
        for count in range(first, first + 8):
            if not world.run_until(lambda: world.leader() is not None and len(world.nodes()) == 3, 5):
                break
            world.processes[world.leader() or "n1"].crash_at(count)
            assert world.run_until(lambda: len(world.nodes()) < 3, 10)
            world.start()
        assert ends == ["crash"] * 8
        finish(world, load)
        for process in world.processes.values():
            process.kill()
        world.run(0.1)
        for process in world.processes.values():
            assert verify(process.config.directory).sound


def test_54402_a_crash_that_was_not_reached_does_not_come_while_files_are_compared() -> None:
    """It ended the simulation."""
    with World(1, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.schedule(20, delay_ms=60_000)
        assert world.run_until(lambda: len(load.acknowledged) == 20, 5)
        world.run(0.2)
        for process in world.processes.values():
            process.crash_at(1)
        assert len(set(world.digests().values())) == 1


@pytest.mark.parametrize("operation", ["write", "fdatasync"])
def test_a_failing_disk_ends_the_node_and_only_it(operation: str) -> None:
    """EIO: the node ends with DiskFailed within a moment, the others go on, and it comes back on the next start."""
    with World(3, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(60)
        victim = world.processes[world.leader() or "n1"]
        victim.disk.fail(errno.EIO, operation, 3)
        assert world.run_until(lambda: not victim.alive, 2)
        assert type(victim.failure).__name__ == "DiskFailed"
        assert world.run_until(lambda: world.leader() is not None, 5)
        finish(world, load)


def test_a_paused_leader_is_replaced_and_follows_when_it_wakes() -> None:
    """While it is stopped another node leads a later term; awake it does not lead its old one."""
    with World(4, config=CONFIG) as world:
        load = Load(world)
        load.found()
        former = world.leader()
        assert former is not None
        world.processes[former].pause()
        assert world.run_until(lambda: world.leader() not in (None, former), 5)
        world.processes[former].resume()
        world.run(0.5)
        node = world.processes[former].node
        assert node is not None
        assert node.group.leader_term is None
        assert node.group.raft.leader_id == world.leader()
        load.consume()
        load.schedule(20)
        finish(world, load)


def test_a_cut_off_leader_acknowledges_nothing_and_another_leads() -> None:
    """With the leader alone the other two elect one of them; a client of the lone node gets no yes."""
    with World(5, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        lone = world.leader()
        assert lone is not None
        others = tuple(each for each in world.ids if each != lone)
        world.network.partition((lone,), others)
        world.run(1)
        answers: list[Outcome[Any]] = []
        world.client(lone).http("POST", "/v1/messages", answers.append, body=b'{"topic":"queue","body":1,"delay":"1s"}')
        assert world.run_until(lambda: world.leader() in others, 5)
        assert world.run_until(lambda: bool(answers), 15)
        assert answers[0].result.status in (503, 504)
        load.schedule(30)
        world.run(2)
        finish(world, load)


def test_a_wiped_node_comes_back_by_what_the_others_have() -> None:
    """An empty disk under the old name: it votes for nobody before it has caught up, and ends with the same content."""
    with World(6, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(40)
        world.run(3)
        victim = next(each for each in world.ids if each != world.leader())
        world.processes[victim].kill()
        world.processes[victim].wipe()
        finish(world, load)


def test_stopping_is_in_order() -> None:
    """SIGTERM: the process ends without failure and leaves a directory that verify finds sound."""
    with World(7, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(40)
        world.run(1)
        leader = world.processes[world.leader() or "n1"]
        leader.stop()
        assert world.run_until(lambda: not leader.alive, 40)
        assert [end.how for end in leader.ends] == ["stop"]
        assert verify(leader.config.directory).sound
        finish(world, load)


def test_receivers_that_fail_are_tried_again() -> None:
    """500, a closed connection and a hang are failed attempts; the message comes until it is taken."""
    ways = [Behaviour(status=500), Behaviour(close=True), Behaviour(hang=True), Behaviour()]
    with World(8, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        tried: list[Behaviour] = []

        def next_way() -> Behaviour:
            tried.append(ways[len(tried) % len(ways)])
            return tried[-1]

        world.receivers.behave("hook", next_way)
        load.schedule(8)
        world.run(8)
        world.receivers.behave("hook", Behaviour())
        finish(world, load)
        assert {0, 200, 500} == {each.status for each in world.receivers.log}


def test_the_real_routes_answer_http() -> None:
    """A request as bytes, through a node that does not lead: passed on, and answered as over a socket."""
    with World(9, config=CONFIG) as world:
        load = Load(world)
        load.found()
        follower = next(each for each in world.ids if each != world.leader())
        answers: list[Outcome[Any]] = []
        client = world.client(follower)
        client.http("POST", "/v1/messages", answers.append, body=b'{"topic":"queue","body":{"a":1},"delay":"1h"}')
        assert world.run_until(lambda: len(answers) == 1, 5)
        created = answers[0].result
        assert created.status == 201
        assert created.headers["Hourwheel-Node"] == world.leader()
        client.http("GET", created.headers["Location"], answers.append)
        assert world.run_until(lambda: len(answers) == 2, 5)
        assert msgspec.json.decode(answers[1].result.body)["state"] == "scheduled"


def damage_none(world: World) -> None:
    """The control: nothing."""


def damage_slow(world: World) -> None:
    """One slow disk."""
    world.processes["n1"].platter.slow_s = 0.3


def damage_loss(world: World) -> None:
    """Loss on every way."""
    world.network.loss("*", "*", 0.05)


def damage_duplicates(world: World) -> None:
    """A third of the Raft messages come twice."""
    world.network.duplicate(0.3)


def damage_clocks(world: World) -> None:
    """Crystals that differ, and a wall clock that steps."""
    world.processes["n1"].clock.drift(200)
    world.processes["n2"].clock.drift(-200)
    world.processes["n3"].clock.jump(-1.5)


@pytest.mark.parametrize("damage", [damage_none, damage_slow, damage_loss, damage_duplicates, damage_clocks])
def test_lasting_trouble_loses_nothing(damage: Callable[[World], None]) -> None:
    """A slow disk, a bad network, odd clocks: everything acknowledged comes out, all nodes agree."""
    with World(10, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(60)
        damage(world)
        world.run(4)
        finish(world, load)


def test_a_world_leaves_nothing_behind(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Files, descriptors and coroutines of killed nodes are gone; collecting them makes no noise."""
    before = len(os.listdir("/proc/self/fd"))
    with World(11, config=CONFIG) as world:
        own = world.directory
        load = Load(world)
        load.found()
        load.schedule(20)
        for _ in range(6):
            world.run(0.4)
            for process in world.processes.values():
                process.kill()
            world.start()
    gc.collect()
    assert not own.exists()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert not [str(warning.message) for warning in recwarn]


def test_a_cluster_at_rest_wakes_for_heartbeats_only() -> None:
    """The group says when it needs a tick: a quiet node steps for heartbeats, echoes and its own timer, at most that
    often, and still elects a leader at once when there is none."""
    with World(13) as world:
        steps: dict[str, int] = dict.fromkeys(world.ids, 0)

        def count(node_id: str, group: Group) -> None:
            tick = group.raft.tick

            def counted(*, writing: bool = False) -> bool:
                steps[node_id] += 1
                return tick(writing=writing)

            group.raft.tick = counted  # type: ignore[method-assign]

        world.on_group = count
        world.start()
        assert world.run_until(lambda: world.leader() is not None, 5)
        world.run(2)
        steps.update(dict.fromkeys(world.ids, 0))
        world.run(5)
        assert max(steps.values()) < 5 * 80, steps
        former = world.leader()
        world.processes[former or "n1"].kill()
        assert world.run_until(lambda: world.leader() not in (None, former), 1.5)


def test_nodes_are_level_behind_a_no_op() -> None:
    """Seed 5385: the leader gave a member that had come level a no-op, and nothing followed. Machines are not told of
    one, so a comparison with what they had applied waited for ever."""
    with World(1) as world:
        world.start()
        assert world.run_until(lambda: {node.group.machine.level for node in world.nodes().values()} == {LEVELS[1]}, 9)
        assert world.run_until(lambda: world.leader() is not None and at_one_index(world.nodes().values()), 5)
        leader = world.nodes()[world.leader() or ""]
        index = leader.group.raft.last_index
        leader.group.raft._core.append(NO_OP)
        leader.group.raft.on_wake()
        world.run(1)
        assert [node.group.raft.last_index for node in world.nodes().values()] == [index + 1] * 3
        assert {node.group.machine.applied_index for node in world.nodes().values()} == {index}
        assert at_one_index(world.nodes().values())
