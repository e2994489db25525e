"""Hands on processes: what several faults hold is let go by the last of them, and no end goes unseen."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chaos.history.event import Crashed
from chaos.history.history import History
from chaos.live.faults import process_holds as hands_module
from chaos.live.faults.process_holds import ProcessHolds
from tests.chaos.live.faults.pretended import Machines

Scenario = Callable[[Machines, ProcessHolds, History], Awaitable[None]]


async def turns() -> None:
    """Lets everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def held_twice(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """Two faults keep a node down: it is started once, when the later one ends."""
    async with holds.down("n1"):
        async with holds.down("n1"):
            await turns()
        await turns()
        assert machines.log == ["end n1 -9"]
    await turns()
    assert machines.log == ["end n1 -9", "start n1"]
    assert not history.events


async def let_go_before_it_was_noticed(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """A fault of no length: the end that it made is nobody else's fault."""
    async with holds.down("n1"):
        pass
    await turns()
    assert machines.log == ["end n1 -9", "start n1"]
    assert not history.events


async def ends_by_itself(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """It is told of, asked about, and started again, each time."""
    asked: list[tuple[str, int]] = []

    async def mine(node_id: str, returncode: int) -> bool:
        assert node_id not in machines.running()
        asked.append((node_id, returncode))
        return returncode == 11

    holds.asked_of_ends.append(mine)
    for returncode in (11, -11, 0):
        machines.end("n2", returncode)
        await turns()
    assert asked == [("n2", 11), ("n2", -11), ("n2", 0)]
    assert [event.expected for event in history.of(Crashed)] == [True, False, False]
    assert machines.log.count("start n2") == 3


async def fails_while_held(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """An end with an error is told of also where an end was to be expected; who held the node starts it."""
    async with holds.may_end("n3"):
        machines.end("n3", 1)
        await turns()
        assert machines.log == ["end n3 1"]
    await turns()
    assert machines.log == ["end n3 1", "start n3"]
    assert [event.node for event in history.of(Crashed)] == ["n3"]


async def ends_otherwise_while_it_may_end(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """A fault excuses an end in order and the signals that it sends, not a fault of memory."""
    async with holds.may_end("n1"), holds.may_end("n2"), holds.may_end("n3"):
        for name, returncode in (("n1", -15), ("n2", 0), ("n3", -11)):
            machines.end(name, returncode)
        await turns()
    assert [event.node for event in history.of(Crashed)] == ["n3"]


async def told_to_the_end(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """What happened just before the run ended is told, and nothing is started after it."""
    machines.end("n1", 1)
    await holds.rest()
    assert [event.node for event in history.of(Crashed)] == ["n1"]
    assert machines.log == ["end n1 1"]
    holds.start("n1")
    assert machines.log == ["end n1 1"]


async def removed(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """A node that was removed ends with the code that says so, and is not started. One that is to be removed may have
    its vote still, and the others may need it: chaos run 2102, in which its disk failed, had no majority any more."""
    machines.leaving |= {"n2", "n3"}
    machines.end("n2", 13)
    machines.end("n3", 1)
    await turns()
    assert [event.node for event in history.of(Crashed)] == ["n3"]
    assert [line for line in machines.log if line.startswith("start")] == ["start n3"]


async def paused_twice(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """It goes on when the last pause ends."""
    async with holds.paused("n1"):
        async with holds.paused("n1"):
            assert holds.stands_still("n1")
        assert "resume n1" not in machines.log
    assert machines.log == ["pause n1", "pause n1", "resume n1"]


async def paused_killed_and_paused(machines: Machines, holds: ProcessHolds, history: History) -> None:
    """A pause is one process's: the one after it is paused and woken on its own."""
    async with holds.paused("n1"):
        async with holds.down("n1"):
            pass
        await turns()
        assert not holds.stands_still("n1")
        async with holds.paused("n1"):
            pass
        assert machines.log[-1] == "resume n1"
    assert machines.log.count("resume n1") == 1


SCENARIOS = [
    held_twice,
    let_go_before_it_was_noticed,
    ends_by_itself,
    fails_while_held,
    ends_otherwise_while_it_may_end,
    told_to_the_end,
    removed,
    paused_twice,
    paused_killed_and_paused,
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_hands(scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the scenario says."""
    monkeypatch.setattr(hands_module, "AGAIN_S", 0)

    async def run() -> None:
        machines, history = Machines(tmp_path), History()
        holds = ProcessHolds(machines.cluster(), history)
        holds.start(*machines.nodes)
        await turns()
        assert machines.tended
        await scenario(machines, holds, history)
        await holds.rest()
        assert not machines.tended, "who waits for the cluster has to notice ends again"

    asyncio.run(run())
