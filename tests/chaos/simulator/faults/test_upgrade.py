"""Two builds in one simulated cluster: changed one restart after the other, in both orders as far as allowed."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.history.event import Crashed, LevelAsked
from chaos.history.history import History
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.faults.upgrade import ASK_S, Upgrade
from chaos.simulator.result import Run
from chaos.simulator.run import Running, run_plan
from chaos.simulator.world.world import World
from replication.command.entry import UnknownCommand
from storage.format.level import LEVELS
from storage.format.rows import FormatRefused

THERE_AND_BACK = """plan seed={seed} nodes=3 seconds=22 older=3
4 version n1 for=0.3 to=newer
6 version n2 for=0.3 to=newer
9 version n1 for=0.3 to=older
12 version n1 for=0.3 to=newer
"""
LAST = "14 version n3 for=0.3 to=newer\n"
BACK = "17 version n2 for=0.3 to=older\n"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The runs, for their histories."""
    runs: list[Any] = []
    begin = Running.__init__

    def kept(self: Running, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        runs.append(self)

    monkeypatch.setattr(Running, "__init__", kept)
    return runs


def figure(run: Run) -> dict[str, Any]:
    """Of the levels."""
    return next(dict(verdict.figure) for verdict in run.verdicts if verdict.promise == "levels")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_level_rises_when_the_last_was_changed_and_not_before(seed: int, seen: list[Running]) -> None:
    """By itself, or (seed 2) because somebody asked. Until then who asks hears of a member that lags. Nothing is lost
    on the way, and after it nobody goes back: who does ends by name, and the newer build is put back."""
    run = run_plan(FaultPlan.parse(THERE_AND_BACK.format(seed=seed) + LAST + BACK))
    assert not run.broken, "\n".join(run.broken)
    told = figure(run)
    assert (told["raised"], told["level"]) == (LEVELS[1] - 1, LEVELS[1])
    asked = seen[0].history.of(LevelAsked)
    assert {event.lags for event in asked if event.reads} >= {"n1", "n3"}
    assert asked[-1].level == LEVELS[1]
    ended = seen[0].history.of(Crashed)
    assert [event.node for event in ended] == ["n2"]
    assert ended[0].error.startswith((FormatRefused.__name__, UnknownCommand.__name__))


def test_while_one_lags_nothing_rises(seen: list[Running]) -> None:
    """To the end of the load. Then the operator changes the last one, and the level rises: no plan ends below it."""
    run = run_plan(FaultPlan.parse(THERE_AND_BACK.format(seed=1)))
    assert not run.broken, "\n".join(run.broken)
    asked = seen[0].history.of(LevelAsked)
    assert {event.lags for event in asked if event.mono_ms > 14_000 and event.reads} == {"n3"}
    assert figure(run)["raised"] == LEVELS[1] - 1
    assert not seen[0].history.of(Crashed)


def test_44225_the_build_before_keeps_to_the_times_that_others_take_it_to_have(seen: list[Running]) -> None:
    """Its echoes do not say what it owes: with a shorter one than 400 ms it elects while a leader is trusted. So its
    operator gives it none, and takes it back before it is that build again."""
    plan = """plan seed=44225 nodes=3 seconds=12 older=1
2 times n1 for=0.2 to=short
3 times n2 for=0.2 to=short
4 times n1 for=0.2 to=long
7 version n2 for=0.2 to=older
"""
    run = run_plan(FaultPlan.parse(plan))
    assert not run.broken, "\n".join(run.broken)
    assert (run.passed["times"], run.fired["times"], run.fired["version"]) == (1, 2, 1)
    least = {node_id: each.config.raft.election_min_ms for node_id, each in seen[0].world.processes.items()}
    assert least == {"n1": 1_600, "n2": 400, "n3": 400}


def test_48390_who_asks_for_a_level_goes_on_though_all_nodes_are_down() -> None:
    """All three were down at once when the faults ended: who asks took the level as reached, and never asked again."""
    with World(1, config={"raft": {"upgrade": "asked"}}) as world:
        upgrade = Upgrade(world, History(now=lambda: (world.now_s * 1000, world.now_ms)), older=3)
        world.start()
        world.run(5)
        upgrade.end()
        upgrade.begin()
        world.run(ASK_S + 0.1)
        assert not world.nodes()
        world.start()
        world.run(5)
        assert [node.group.machine.level for node in world.nodes().values()] == [LEVELS[1]] * 3
