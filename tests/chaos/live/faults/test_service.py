"""Faults that wait for calm: measured by what is handed over, and ended by healing."""

import asyncio
from itertools import pairwise
from pathlib import Path

import msgspec

from chaos.history.event import Fault as Seen
from chaos.history.history import History
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from tests.chaos.history import planted
from tests.chaos.live.faults.carried_out import carried_out, marks, plan_of
from tests.chaos.live.faults.pretended import Machines


def hand_over(history: History) -> None:
    """A message is handed over, now."""
    history.record(msgspec.structs.replace(planted.hand_over(1, 0, 1), **history.stamp()))


def test_faults_that_wait_for_calm_come_one_after_the_other(tmp_path: Path) -> None:
    """Each after ten messages, which are a second's; the one beside another ends first; then the plan is over. What is
    handed over while nobody serves does not count, and without hand-overs nothing comes."""

    async def run() -> None:
        machines = Machines(tmp_path)

        async def served(nemesis: LiveNemesis) -> None:
            seen: list[tuple[int, int]] = []
            handed_over = 0
            while not nemesis.turns_over.is_set():
                await nemesis.lasts(0.005)
                if nemesis.watch.leader() is not None:
                    hand_over(nemesis.history)
                    handed_over += 1
                    seen.append((handed_over, len(nemesis.history.of(Seen))))
                if nemesis.holds.away("n1"):
                    machines.leader, machines.term = "n2", 2
            begun = [next(count for count, marked in seen if marked >= number) for number in range(1, 7)]
            assert begun[0] >= 10
            assert all(later - before >= 10 for before, later in pairwise(begun))

        lines = ["+1 pause last for=+1", "&1 pause follower for=+1", "+1 kill leader for=+1"]
        nemesis, history = await carried_out(machines, *lines, heal_when=served, rate=10)
        assert [(kind, node, phase) for kind, node, _, phase in marks(history)] == [
            ("pause", "n3", "begin"),
            ("pause", "n2", "begin"),
            ("pause", "n2", "end"),
            ("pause", "n3", "end"),
            ("kill", "n1", "begin"),
            ("kill", "n1", "end"),
        ]
        assert nemesis.fired == {"pause": 2, "kill": 1}

    asyncio.run(run())


def test_healing_ends_the_wait_for_calm(tmp_path: Path) -> None:
    """A service that hands nothing over keeps no run from its end."""

    async def run() -> None:
        async def waited(nemesis: LiveNemesis) -> None:
            await nemesis.lasts(0.05)

        nemesis, history = await carried_out(Machines(tmp_path), "+1 kill n1 for=1", heal_when=waited, rate=10)
        assert not nemesis.turns_over.is_set()
        assert not marks(history)

    asyncio.run(run())


def test_a_fault_that_was_to_be_beside_another_and_comes_alone_is_told_of(tmp_path: Path) -> None:
    """The other lasts for a fixed time, which is over before it is calm."""

    async def run() -> None:
        async def served(nemesis: LiveNemesis) -> None:
            while not nemesis.turns_over.is_set():
                await nemesis.lasts(0.005)
                if nemesis.holds.away("n3") or not nemesis.fired["pause"] or "end" in phases(nemesis):
                    hand_over(nemesis.history)

        def phases(nemesis: LiveNemesis) -> list[str]:
            return [phase for _, _, _, phase in marks(nemesis.history)]

        lines = ["+1 pause last for=0.01", "&1 pause follower for=0.01"]
        nemesis, _ = await carried_out(Machines(tmp_path), *lines, heal_when=served, rate=10)
        alone = "&1.000 pause follower for=0.010: the fault that it was to be beside was over"
        assert nemesis.fell_short == [alone]

    asyncio.run(run())


def test_the_load_goes_on_when_the_last_fault_is_over(tmp_path: Path) -> None:
    """So that what it excuses is over too, and whether the service came back is judged."""

    async def run() -> float:
        history = History()
        async with LiveNemesis(Machines(tmp_path).cluster(), history, plan_of("+0 kill n3 for=0"), 10, 0.2) as nemesis:
            nemesis.register(ProcessFaults(nemesis))
            running = asyncio.create_task(nemesis.run())
            await nemesis.turns_over.wait()
            over_ms = history.now()[0] - history.of(Seen)[-1].mono_ms
            await running
            await nemesis.heal()
        return over_ms

    assert asyncio.run(run()) >= 200
