"""What a node's work costs on virtual time: a step that does much holds its node, and is found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import storage.checkpoint.hour_set
from api.port.port import ANONYMOUS, MessageIn
from chaos.client.outcome import Outcome
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.run import run_plan
from chaos.simulator.time.cost import BOUNDS, CALLS, Meter, _owner, counted, free
from chaos.simulator.time.loop import CHARGED_S
from chaos.simulator.world.world import World
from node.upkeep.housekeeping import keep_house

ROOT = Path(__file__).parents[4]


def hold(world: World, node_id: str, seconds: float) -> None:
    """The node's next step of its loop does work that takes so long."""

    def work() -> None:
        assert Meter.running is not None
        Meter.running.charge("work of the test", seconds * 1e6)

    node = world.processes[node_id].node
    assert node is not None
    node.group.life._tasks[0].get_loop().call_soon(work)


def leading(world: World) -> str:
    """Start all nodes and wait for a leader."""
    world.start()
    assert world.run_until(lambda: world.leader() is not None, 5)
    world.run(1)
    return world.leader() or ""


@pytest.mark.parametrize(
    ("seconds", "trusted", "deposed"), [(0.1, True, False), (0.33, False, False), (2.0, False, True)]
)
def test_a_leader_that_is_held_is_late_loses_trust_is_deposed(seconds: float, trusted: bool, deposed: bool) -> None:
    """A step of 0.1 s is late heartbeats, one of 0.33 s the end of trust (0.25 s), one of 2 s an election."""
    with World(3) as world:
        told: list[tuple[str, float]] = []
        world.on_held = lambda node_id, held_s, by: told.append((node_id, held_s))
        first = leading(world)
        hold(world, first, seconds)
        world.run(0.01)
        before = world.processes[first].node
        assert before is not None
        lost = world.run_until(
            lambda: before.group.leader_term is None or not before.group.leader_term.trusted(), seconds - 0.015
        )
        assert lost is not trusted
        world.run(4)
        assert (world.leader() != first) is deposed
        assert [node_id for node_id, held_s in told if held_s >= seconds] == [first]


def test_a_node_that_is_held_answers_behind_it() -> None:
    """Who asks meanwhile waits until the step is over, no longer."""
    with World(4) as world:
        first = leading(world)
        answers: list[tuple[float, Outcome[Any]]] = []
        client = world.client(first)
        message = MessageIn("t", b"x")

        def ask() -> None:
            client.call(lambda port: port.schedule([message], ANONYMOUS), lambda o: answers.append((world.now_s, o)))

        ask()
        assert world.run_until(lambda: len(answers) == 1, 2)
        hold(world, first, 0.2)
        begun_s = world.now_s
        world.run(0.001)
        ask()
        assert world.run_until(lambda: len(answers) == 2, 2)
        assert 0.2 <= answers[1][0] - begun_s <= 0.3
        assert answers[1][1].kind == "ok"


def test_a_thread_that_works_holds_its_job_not_the_loop() -> None:
    """A job takes as much longer as it is charged; heartbeats go on."""
    with World(5) as world:
        told: list[str] = []
        world.on_held = lambda node_id, held_s, by: told.append(node_id)
        first = leading(world)
        node = world.processes[first].node
        assert node is not None
        ended_s: list[float] = []

        def work() -> None:
            assert Meter.running is not None
            Meter.running.charge("work of the test", 1e6)

        begun_s = world.now_s
        loop = node.group.life._tasks[0].get_loop()
        loop.job(work, lambda result, error: ended_s.append(world.now_s))  # type: ignore[attr-defined]
        assert world.run_until(lambda: bool(ended_s), 3)
        assert ended_s[0] - begun_s >= 1
        assert world.leader() == first
        assert first not in told


def test_12191_an_echo_is_not_older_than_its_heartbeat() -> None:
    """Seed 12191 with a crowd: a heartbeat's stamp held work that was not yet charged, and the clock that its echo was
    compared with did not. So the echo was from the future, nobody's, and no leader stayed one."""
    with World(3, weight=2) as world:
        node = world.processes[leading(world)].node
        assert node is not None

        def owe() -> None:
            """As much as is owed without being paid."""
            assert Meter.running is not None
            Meter.running.owed_us = CHARGED_S * 0.99e6
            loop.call_later(0.001, owe)

        loop = node.group.life._tasks[0].get_loop()
        loop.call_soon(owe)
        assert not world.run_until(lambda: node.group.leader_term is None or not node.group.leader_term.trusted(), 1)


def test_a_step_that_holds_a_node_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a drawn run as in a planted history: the verdict names what the step did."""
    keep = keep_house

    async def look_at_everything(*parts: Any, **looks: Any) -> None:
        assert Meter.running is not None
        Meter.running.charge("a look at everything", 300_000)
        await keep(*parts, **looks)

    monkeypatch.setattr("node.group.group.keep_house", look_at_everything)
    run = run_plan(FaultPlan.parse("plan seed=1 nodes=3 seconds=10\n"))
    assert run.promises == {"held"}
    assert "a look at everything 300.0" in "\n".join(run.broken)


def test_calls_are_counted_while_there_is_a_world() -> None:
    """Each is there, is put back afterwards, and bounds in rows are to the scale of the world."""
    before = [getattr(_owner(path), name) for path, name, *_ in CALLS]
    (path, name), *_ = BOUNDS
    module = sys.modules[path]
    bound = getattr(module, name)
    with counted(weight=bound // 2):
        assert getattr(module, name) == 2
        assert all(getattr(_owner(path), name) is not old for (path, name, *_), old in zip(CALLS, before, strict=True))
        with counted():
            assert getattr(module, name) == 2
    assert getattr(module, name) == bound
    assert [getattr(_owner(path), name) for path, name, *_ in CALLS] == before


def test_an_hour_that_is_left_to_the_checkpoint_is_so_to_scale() -> None:
    """Seed 5385: an append may read the heads of 65,536 units on the loop. Of an hour of 915, which stand for two
    million, it read all, and was said to be held for 112 ms."""
    before = storage.checkpoint.hour_set._READ_UNITS_MAX
    with counted(weight=2_000):
        assert before // 2_000 == storage.checkpoint.hour_set._READ_UNITS_MAX < 915 < before


def test_bytes_of_an_hour_have_the_weight_of_the_world() -> None:
    """A look through an hour stands for a larger one; rows that are asked for are those rows."""
    light, heavy = Meter(), Meter(weight=100)
    for meter in (light, heavy):
        meter.read("/hours/1/settle", 64)
    assert light.take() == heavy.take()
    for meter in (light, heavy):
        meter.read("/hours/1/settle", 48_000)
    assert light.take() == heavy.take()
    for meter in (light, heavy):
        meter.scanning = 1
        meter.read("/hours/1/settle", 48_000)
    assert heavy.take()[0] > 90 * light.take()[0]


def test_what_only_looks_is_free() -> None:
    """A probe changes nothing that a node does, its time neither."""
    Meter.running = meter = Meter()
    try:
        assert free(lambda: Meter.running)() is None
        assert Meter.running is meter
    finally:
        Meter.running = None
