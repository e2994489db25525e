"""A plan carried out on pretended machines, and what of it stands in the history."""

import asyncio
from collections.abc import Awaitable, Callable

from chaos.history.event import Fault as Seen
from chaos.history.history import History
from chaos.live.faults.clock import ClockFaults
from chaos.live.faults.link import LinkFaults
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from chaos.plan.fault_plan import FaultPlan
from tests.chaos.live.faults.pretended import Machines


def plan_of(*lines: str) -> FaultPlan:
    """Three nodes, these faults."""
    return FaultPlan.parse("\n".join(["plan seed=1 nodes=3 seconds=20", *lines]), "live")


async def carried_out(
    machines: Machines,
    *lines: str,
    heal_when: Callable[[LiveNemesis], Awaitable[None]] | None = None,
    rate: float = 0.0,
) -> tuple[LiveNemesis, History]:
    """A plan to its end, or until it is healed earlier."""
    history = History()
    async with LiveNemesis(machines.cluster(), history, plan_of(*lines), rate) as nemesis:
        nemesis.register(ProcessFaults(nemesis), ClockFaults(nemesis, "no compiler"), LinkFaults(nemesis))
        running = asyncio.create_task(nemesis.run())
        if heal_when is not None:
            await heal_when(nemesis)
            await nemesis.heal()
        await running
        await nemesis.heal()
    return nemesis, history


def marks(history: History) -> list[tuple[str, str, str, str]]:
    """Kind, node, role and phase of what stands in the history."""
    return [(event.kind, event.node, event.role, event.phase) for event in history.of(Seen)]
