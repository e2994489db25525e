"""Faults that wait for calm: measured by what is handed over, and ended by healing."""

import asyncio
from itertools import pairwise
from pathlib import Path

from chaos.history.event import Fault as Seen
from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.live.faults.nemesis import LiveNemesis
from tests.chaos.live.faults.carried_out import carried_out, marks
from tests.chaos.live.faults.pretended import Machines


def hand_over(history: History) -> None:
    """A message is handed over, now."""
    mono_ms, wall_ms = history.now()
    history.record(
        HandedOver(
            mono_ms=mono_ms,
            wall_ms=wall_ms,
            number=1,
            message_id="id",
            term=1,
            attempt=1,
            due_ms=wall_ms,
            asked_due_ms=wall_ms,
            handed_over_ms=wall_ms,
            leased_until_ms=wall_ms,
            node="n1",
            connection="n1/0",
            response=1,
        )
    )


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
                if nemesis.hands.away("n1"):
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
